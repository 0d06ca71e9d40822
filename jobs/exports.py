"""What pages and the API read of exports: which there are, what they answer, and whether they may be handed out."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

from django.contrib.auth.models import User
from django.db.models import Prefetch, QuerySet
from pydantic import BaseModel, TypeAdapter, ValidationError

from engine.catalog import backend_cards
from jobs.access import may_change, may_override, run_for, visible_jobs
from jobs.lineage import dataset_job_id
from jobs.models import Artifact, ExportOverride, Job
from jobs.parts import files_gone, made_dir, part_for
from jobs.states import Status
from jobs.summaries import JobError, JobRef, error_of, titles_shown
from wire.errors import ActionRefused, NotFound
from wire.exports import ExportReport
from wire.layout import ExportDir
from wire.specs import ExportPrecision, ExportSpec

ExportOutcome: TypeAlias = Literal["passed", "failed", "not_run", ""]
PRECISIONS: Final[tuple[ExportPrecision, ...]] = get_args(ExportPrecision)
_OUTCOME: TypeAdapter[ExportOutcome] = TypeAdapter(ExportOutcome)


class ExportFigures(BaseModel):
    """What was measured, in short: None where it was not. Shares are 0 to 1."""

    split: str | None = None
    n_images: int | None = None
    accuracy: float | None = None
    reference_accuracy: float | None = None
    change_points: float | None = None
    change_lower: float | None = None
    change_upper: float | None = None
    agreement: float | None = None
    max_difference: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    """Both of batch 1."""
    images_per_s: float | None = None
    """Of batch 32."""
    bytes: int | None = None
    build_s: float | None = None
    device: str | None = None
    compute_capabilities: tuple[str, ...] = ()
    n_kept: int | None = None
    """Layers of an INT8 model that compute in float."""


class OverrideInfo(BaseModel):
    """Who hands out an export that failed, since when, and why."""

    by: str
    at: datetime
    reason: str


class CheckpointInfo(BaseModel):
    name: str
    step: int
    epoch: float
    sha256: str
    why: str
    """A sentence: why this one."""


class ExportRow(BaseModel):
    id: int
    run: int
    title: str
    backend: str
    backend_label: str
    precision: ExportPrecision
    is_newest: bool
    """Of the run's exports to this backend in this precision."""
    status: str
    stage: str
    done: int
    total: int
    wait_reason: str
    outcome: ExportOutcome
    """Empty for as long as it has none, and of one that was cancelled."""
    reasons: tuple[str, ...]
    """Why it failed, or could not be run."""
    error: JobError | None
    """Of a conversion that was refused, or broke off."""
    figures: ExportFigures | None
    """None where nothing was made."""
    has_files: bool
    override: OverrideInfo | None
    is_deliverable: bool
    """It has files, and passed, or could not be run, or somebody answers for it."""
    checkpoint: CheckpointInfo | None
    """None for as long as it waits for the training."""
    dataset: JobRef | None
    wants: list[str]
    owner: str
    private: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    may_change: bool
    """Cancel, delete."""
    may_override: bool


def exports_of(user: User, run_id: int) -> list[ExportRow]:
    """The newest of each target in the order of the cards, then the earlier ones, newest first.

    Raises:
        NotFound: the run is not there for this user.
    """
    run = run_for(user, run_id)
    rows = export_rows(visible_jobs(user).filter(verb="export", part_of=run).order_by("-pk"), user)
    newest: dict[tuple[str, str], ExportRow] = {}
    for row in rows:
        newest.setdefault((row.backend, row.precision), row)
    first = sorted(newest.values(), key=_place)
    for row in first:
        row.is_newest = True
    return [*first, *(row for row in rows if not row.is_newest)]


def export_rows(exports: QuerySet[Job], user: User) -> list[ExportRow]:
    """In the order of the query. Cost: three queries, however many."""
    jobs = list(
        exports.select_related("owner", "part_of", "override__by").prefetch_related(
            Prefetch("artifacts", Artifact.objects.filter(kind="export", trashed_at=None))
        )
    )
    titles = titles_shown(jobs, user)
    return [_row(job, titles, user) for job in jobs]


def export_row(export: Job, user: User) -> ExportRow:
    """Cost: three queries; whether it is the newest of its target is not looked at."""
    return export_rows(Job.objects.filter(pk=export.pk), user)[0]


def export_for(user: User, job_id: int) -> Job:
    """Raises ``NotFound`` where the user may not see it, or it is something else."""
    return part_for(user, job_id, "export")


def export_report_of(export: Job) -> ExportReport:
    """What was made and measured. Cost: the reading of one JSON file.

    Raises:
        ActionRefused: nothing was made, or not yet.
        NotFound: its files are gone, or cannot be read.
    """
    try:
        return ExportReport.model_validate_json(export_dir_of(export).report_path.read_bytes())
    except FileNotFoundError:
        raise files_gone(export, "is gone") from None
    except (OSError, ValidationError):
        raise files_gone(export, "cannot be read") from None


def export_dir_of(export: Job) -> ExportDir:
    """Where its files lie.

    Raises:
        ActionRefused: nothing was made, or not yet.
        NotFound: its files are gone.
    """
    folder = made_dir(export)
    if not folder.is_dir():
        raise files_gone(export, "is gone")
    return ExportDir(folder)


def has_files(export: Job) -> bool:
    """Whether what it made is there still, on the disk too."""
    try:
        return export_dir_of(export).report_path.is_file()
    except (ActionRefused, NotFound):
        return False


def _place(row: ExportRow) -> tuple[int, str, int]:
    backends = list(backend_cards())
    known = backends.index(row.backend) if row.backend in backends else len(backends)
    return known, row.backend, PRECISIONS.index(row.precision)


def _row(job: Job, titles: dict[int, str], user: User) -> ExportRow:
    spec = ExportSpec.model_validate(job.spec)
    made = next(iter(job.artifacts.all()), None)
    meta = {} if made is None else made.meta
    override = getattr(job, "override", None)
    outcome = _outcome(job, made)
    with_files = made is not None and made.bytes > 0
    card = backend_cards().get(spec.backend.name)
    dataset_id = dataset_job_id(job.spec)
    return ExportRow(
        id=job.pk,
        run=job.part_of_id or 0,
        title=job.title,
        backend=spec.backend.name,
        backend_label=spec.backend.name if card is None else card.label,
        precision=spec.precision,
        is_newest=False,
        status=job.status,
        stage=job.stage,
        done=job.done,
        total=job.total,
        wait_reason=job.wait_reason,
        outcome=outcome,
        reasons=tuple(meta.get("reasons", ())) if made is not None else _why_failed(job, outcome),
        error=error_of(job),
        figures=None if made is None else ExportFigures.model_validate(meta),
        has_files=with_files,
        override=None if override is None else _told(override),
        is_deliverable=with_files
        and (outcome in {"passed", "not_run"} or (outcome == "failed" and override is not None)),
        checkpoint=_checkpoint(spec),
        dataset=None if dataset_id is None else JobRef(id=dataset_id, title=titles.get(dataset_id, "")),
        wants=list(job.wants),
        owner=job.owner.username,
        private=job.private,
        created_at=job.created_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        may_change=may_change(user, job),
        may_override=may_override(user, job),
    )


def _outcome(job: Job, made: Artifact | None) -> ExportOutcome:
    """What the export itself says; a job that failed before it could say anything has failed."""
    if made is not None and job.status == Status.SUCCEEDED:
        return _OUTCOME.validate_python(made.meta.get("outcome", ""))
    return "failed" if job.status in {Status.FAILED, Status.ERRORED} else ""


def _why_failed(job: Job, outcome: ExportOutcome) -> tuple[str, ...]:
    return (job.error_message,) if outcome == "failed" and job.error_message else ()


def _told(override: ExportOverride) -> OverrideInfo:
    return OverrideInfo(by=override.by.username, at=override.at, reason=override.reason)


def _checkpoint(spec: ExportSpec) -> CheckpointInfo | None:
    used = spec.checkpoint
    if used is None:
        return None
    return CheckpointInfo(name=used.name, step=used.step, epoch=used.epoch, sha256=used.sha256, why=used.chosen)
