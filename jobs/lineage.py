"""Which job reads what of which other job: derived from specs, kept as ``JobInput`` rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from jobs import transitions
from jobs.checkpoints import Chosen, checkpoint_chosen
from jobs.models import Artifact, Job, JobInput
from jobs.states import ENDED, Status
from jobs.storage import storage
from wire.errors import CheckpointMissing, DatasetMissing
from wire.manifests import SplitName

EVALUATED_SPLITS: tuple[SplitName, ...] = ("val", "test")
"""What nothing was learnt from."""
_INPUT = re.compile(r"\.\./(\d+)/")


def dataset_spec_path(import_id: int) -> str:
    """How a training's spec names the dataset that an import makes, even before it is made."""
    job = storage().job(import_id)
    return storage().input_path(import_id, job.dataset_dir.relative_to(job.path).as_posix())


def input_job_id(spec_path: str | None) -> int | None:
    """The job that made the input which a spec names."""
    found = _INPUT.match(spec_path or "")
    return int(found[1]) if found else None


def dataset_job_id(spec: dict[str, Any]) -> int | None:
    return input_job_id(spec.get("dataset"))


def dataset_trained_on(run: Job) -> Artifact | None:
    """None where it was deleted, or the run waits for it still."""
    used = run.inputs.filter(role="dataset", artifact__trashed_at=None).select_related("artifact__made_by").first()
    return None if used is None else used.artifact


def splits_present(dataset: Artifact, of: Sequence[SplitName] = EVALUATED_SPLITS) -> tuple[SplitName, ...]:
    """Those that have images."""
    counts = dataset.meta.get("counts", {})
    return tuple(split for split in of if counts.get(split))


def waiting_for(import_id: int) -> list[Job]:
    """Trainings; what is to be made of one of them waits for the training itself."""
    path = dataset_spec_path(import_id)
    return list(Job.objects.filter(verb="train", status=Status.WAITING, spec__dataset=path))


@transaction.atomic
def wake_dependents(job_id: int) -> list[int]:
    """Queue the jobs that waited for this one, or fail them where it made nothing. Gives the ids of the queued."""
    source = Job.objects.get(pk=job_id)
    if Status(source.status) not in ENDED:
        return []
    return _wake_exports(source) if source.verb == "train" else _wake_trainings(source)


def _wake_trainings(source: Job) -> list[int]:
    dataset = Artifact.objects.filter(made_by=source, kind="dataset", trashed_at=None).first()
    woken = []
    for job in waiting_for(source.pk):
        if source.status == Status.SUCCEEDED and dataset is not None:
            if transitions.move(
                job.pk, before=Status.WAITING, after=Status.QUEUED, reason="its dataset is there", wait_reason=""
            ):
                JobInput.objects.get_or_create(job=job, role="dataset", defaults={"artifact": dataset})
                woken.append(job.pk)
        elif _fail(
            job,
            source,
            DatasetMissing.code,
            reason="its dataset could not be imported",
            message=f"The dataset {source.title} was not imported: the import is {source.status}.",
            hint="Import the dataset again, then train on the new one.",
        ):
            wake_dependents(job.pk)
    return woken


def _wake_exports(run: Job) -> list[int]:
    waiting = list(Job.objects.filter(part_of=run, verb="export", status=Status.WAITING).order_by("pk"))
    if not waiting:
        return []
    chosen = checkpoint_chosen(run)
    if run.status == Status.SUCCEEDED and chosen is not None:
        return [job.pk for job in waiting if _queue_export(job, chosen)]
    for job in waiting:
        _fail_export(job, run, has_checkpoint=chosen is not None)
    return []


def _queue_export(job: Job, chosen: Chosen) -> bool:
    won = transitions.move(
        job.pk,
        before=Status.WAITING,
        after=Status.QUEUED,
        reason="its training has succeeded",
        wait_reason="",
        spec=job.spec | {"checkpoint": chosen.ref.model_dump(mode="json")},
    )
    if won:
        JobInput.objects.get_or_create(job=job, role="checkpoint", defaults={"artifact": chosen.artifact})
        dataset = Artifact.objects.filter(made_by=dataset_job_id(job.spec), kind="dataset", trashed_at=None).first()
        if dataset is not None:
            JobInput.objects.get_or_create(job=job, role="dataset", defaults={"artifact": dataset})
    return won


def _fail_export(job: Job, run: Job, *, has_checkpoint: bool) -> None:
    message = f"The training {run.title} is {run.status}, so nothing was exported by itself."
    if run.status == Status.SUCCEEDED:
        message = f"The training {run.title} kept no checkpoint to export."
    hint = "Export its last checkpoint by hand." if has_checkpoint else "Train again, then export that run."
    _fail(job, run, CheckpointMissing.code, reason="its training left nothing for it", message=message, hint=hint)


def _fail(job: Job, source: Job, code: str, *, reason: str, message: str, hint: str) -> bool:
    return transitions.move(
        job.pk,
        before=Status.WAITING,
        after=Status.FAILED,
        reason=reason,
        wait_reason="",
        ended_at=source.ended_at,
        error_code=code,
        error_message=message,
        error_hint=hint,
    )
