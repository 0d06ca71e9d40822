"""Exports: a job for each target of a run, and whoever answers for one that failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from pydantic import ValidationError

from engine.catalog import backend_cards, find_card
from jobs import transitions
from jobs.access import job_for, may_override, run_for, visible_jobs
from jobs.checkpoints import Chosen, checkpoint_of_run
from jobs.database import atomically
from jobs.doorbell import ring_on_commit
from jobs.exports import export_for, export_row, has_files
from jobs.lineage import dataset_job_id, dataset_spec_path, dataset_trained_on
from jobs.models import Artifact, ExportOverride, Job, JobInput
from jobs.requests import ExportRequest, ExportTarget
from jobs.room import check_disk_room
from jobs.services.checks import check_classes, checked_choice, checked_devices, dataset_of_part
from jobs.states import ENDED, Status
from wire.cards import BackendCard
from wire.errors import ActionRefused, NotFound, SpecInvalid
from wire.specs import Choice, ExportSpec

MOST_TITLE = 200
MOST_REASON = 500
_USELESS = (Status.FAILED, Status.ERRORED, Status.CANCELLED, Status.CANCELLING)
"""Exports in these states leave nothing that an equal one could be answered with."""


@dataclass(frozen=True, slots=True)
class Submitted:
    job: Job
    is_new: bool
    """False where an equal one was there."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What all targets of a request have in common."""

    user: User
    run: Job
    chosen: Chosen | None
    """None where it waits for the training."""
    source: Job
    """The import whose dataset calibrates and verifies."""
    dataset: Artifact | None
    """None where that goes on, too."""
    request: ExportRequest


@atomically
def exports_submit(user: User, run_id: int, request: ExportRequest) -> list[Submitted]:
    """Queue the exports of a run, a job for each target, in the order of the targets.

    Those of a run that still trains wait for it. Where an equal export is waiting, runs or has left its files, that one
    is given back; of two that ask at once the second finds the first's.

    Raises:
        NotFound: run, checkpoint or dataset are not there for this user.
        ActionRefused: a backend is not installed, the run kept no checkpoint, or one was named and the run goes on.
        DatasetMissing: the dataset is gone, or was not imported.
        SpecInvalid: no such backend, precision, option or device; the dataset has no class that the run knows.
        DiskFull: there would be no room for its files.
    """
    check_disk_room(0, what="another export")
    run = _locked(run_for(user, run_id))
    wish = _wish(user, run, request)
    # All are checked before the first is made, so that a refusal names the first that is wrong.
    specs = [_spec(wish, target) for target in request.targets]
    submitted = [_found_or_begun(wish, spec) for spec in specs]
    if any(each.is_new for each in submitted):
        ring_on_commit()
    return submitted


def _locked(run: Job) -> Job:
    """The row as it is now, kept from others until the transaction ends: from the end of the run, too.

    SQLite has no such lock and needs none, because transactions that write come one after another there.
    """
    row = Job.objects.select_for_update(of=("self",)).select_related("owner").filter(pk=run.pk, trashed_at=None).first()
    if row is None:
        raise NotFound(f"There is no run #{run.pk}.", hint="It may have been deleted; look at the home page.")
    return row


def _wish(user: User, run: Job, request: ExportRequest) -> _Wish:
    goes_on = Status(run.status) not in ENDED
    if goes_on and request.checkpoint is None:
        chosen = None
    else:
        chosen = checkpoint_of_run(run, request.checkpoint)
    source, dataset = _images(user, run, request.dataset, goes_on=goes_on)
    trained_on = chosen.artifact if chosen is not None else dataset_trained_on(run)
    if dataset is not None and trained_on is not None:
        check_classes(trained_on, dataset)
    return _Wish(user, run, chosen, source, dataset, request)


def _images(user: User, run: Job, import_id: int | None, *, goes_on: bool) -> tuple[Job, Artifact | None]:
    own_id = dataset_job_id(run.spec)
    if import_id in {None, own_id} and goes_on and own_id is not None and dataset_trained_on(run) is None:
        return job_for(user, own_id), None
    dataset = dataset_of_part(user, run, import_id)
    return dataset.made_by, dataset


def _spec(wish: _Wish, target: ExportTarget) -> ExportSpec:
    card = find_card(backend_cards(), target.backend.name, what="backend")
    return ExportSpec(
        checkpoint=None if wish.chosen is None else wish.chosen.ref,
        dataset=dataset_spec_path(wish.source.pk),
        backend=_checked_backend(card, target),
        precision=target.precision,
        calibration=wish.request.calibration,
        verification=wish.request.verification,
        device=checked_devices(wish.request.devices, what="an export"),
    )


def _checked_backend(card: BackendCard, target: ExportTarget) -> Choice:
    if target.precision not in card.precisions:
        raise SpecInvalid(
            f"{card.label} is not exported in {target.precision}.", hint=f"Choose of: {', '.join(card.precisions)}."
        )
    if card.missing:
        raise ActionRefused(f"{card.label} is not installed here: {why_missing(card)}.", hint=how_to_install(card))
    return checked_choice(target.backend, card)


def why_missing(card: BackendCard) -> str:
    """Without a capital and a full stop; of a card that has something missing."""
    names = ", ".join(card.missing)
    return f"the module {names} is missing" if len(card.missing) == 1 else f"the modules {names} are missing"


def how_to_install(card: BackendCard) -> str:
    """The next step for whoever runs this server."""
    return f"Install {', '.join(card.missing)} (`scripts/install` does), start Fovea again, or leave this target out."


def _found_or_begun(wish: _Wish, spec: ExportSpec) -> Submitted:
    equal = _equal(wish, spec)
    return Submitted(equal, is_new=False) if equal is not None else Submitted(_begin(wish, spec), is_new=True)


def _equal(wish: _Wish, spec: ExportSpec) -> Job | None:
    """The newest export that asks for the same."""
    asked = _asked(spec)
    earlier = visible_jobs(wish.user).filter(part_of=wish.run, verb="export", wants=list(wish.request.devices))
    for job in earlier.exclude(status__in=_USELESS).select_related("owner", "part_of").order_by("-pk"):
        if _asks_for(job.spec) != asked:
            continue
        # Last, since it asks the database and the disk.
        if job.status != Status.SUCCEEDED or has_files(job):
            return job
    return None


def _asks_for(spec: dict[str, Any]) -> tuple[object, ...] | None:
    try:
        return _asked(ExportSpec.model_validate(spec))
    except ValidationError:  # of another version of Fovea
        return None


def _asked(spec: ExportSpec) -> tuple[object, ...]:
    """What makes two exports of a run the same."""
    return (
        None if spec.checkpoint is None else spec.checkpoint.sha256,
        spec.dataset,
        spec.backend,
        spec.precision,
        spec.calibration if spec.precision == "int8" else None,
        spec.verification,
        spec.device,
    )


def _begin(wish: _Wish, spec: ExportSpec) -> Job:
    run, chosen = wish.run, wish.chosen
    label = backend_cards()[spec.backend.name].label
    job = transitions.begin(
        status=Status.WAITING if chosen is None else Status.QUEUED,
        reason=f"submitted by {wish.user.username}",
        verb="export",
        spec=spec.model_dump(mode="json"),
        title=f"{label} {spec.precision.upper()} of {run.title}"[:MOST_TITLE],
        # Of a run that only its owner sees an administrator makes nothing that the owner does not see.
        owner=run.owner if run.private else wish.user,
        private=run.private or wish.source.private,
        wants=list(wish.request.devices),
        wait_reason="" if chosen is not None else f"Waiting for the training {run.title} to end"[:300],
        part_of=run,
    )
    if chosen is not None:
        JobInput.objects.create(job=job, artifact=chosen.artifact, role="checkpoint")
    if wish.dataset is not None:
        JobInput.objects.create(job=job, artifact=wish.dataset, role="dataset")
    return job


@atomically
def export_override(user: User, export_id: int, reason: str) -> Job:
    """Answer for an export that failed its verification, so that it may be handed out; a later reason takes its place.

    Raises:
        NotFound: the export is not there for this user.
        ActionRefused: somebody else's run, nothing that could be handed out, or nothing to answer for.
        SpecInvalid: no reason, or one that is too long.
    """
    export = _to_be_answered_for(user, export_id)
    words = reason.strip()
    if not 1 <= len(words) <= MOST_REASON:
        raise SpecInvalid(
            f"A reason of {len(words)} characters.",
            hint=f"Say in 1 to {MOST_REASON} characters why it may be used; the sentence goes into the bundle.",
        )
    _check_failed(user, export)
    ExportOverride.objects.update_or_create(job=export, defaults={"by": user, "reason": words, "at": timezone.now()})
    transitions.announce(export.pk)
    return export


@atomically
def export_override_end(user: User, export_id: int) -> Job:
    """Take it back; where there is none nothing happens.

    Raises:
        NotFound: the export is not there for this user.
        ActionRefused: somebody else's run.
    """
    export = _to_be_answered_for(user, export_id)
    if ExportOverride.objects.filter(job=export).delete()[0]:
        transitions.announce(export.pk)
    return export


def _to_be_answered_for(user: User, export_id: int) -> Job:
    export = export_for(user, export_id)
    if not may_override(user, export):
        run = export.part_of
        owner = export.owner if run is None else run.owner
        raise ActionRefused(
            f"{export.title} was made of a run of {owner.username}.", hint="Ask its owner or an administrator."
        )
    return export


def _check_failed(user: User, export: Job) -> None:
    row = export_row(export, user)
    if row.outcome in {"passed", "not_run"}:
        said = "passed its verification" if row.outcome == "passed" else "could not be run here"
        raise ActionRefused(f"{export.title} {said}.", hint="It is handed out as it is.")
    if row.outcome == "failed" and row.has_files:
        return
    what = "left no files" if row.outcome == "failed" else f"is {row.status}"
    raise ActionRefused(
        f"{export.title} {what}: there is nothing to hand out.", hint="Only an export with files can be answered for."
    )
