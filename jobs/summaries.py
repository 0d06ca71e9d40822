"""A job as pages and the API show it: one flat record, whatever its verb."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Prefetch, QuerySet
from django.utils import timezone
from pydantic import BaseModel

from engine.catalog import model_cards
from jobs.access import may_change
from jobs.lineage import dataset_job_id
from jobs.models import Artifact, Attempt, Job
from jobs.states import ENDED, Status

_FOUND = ("report", "predictions", "export")
_TOLD = ("dataset", *_FOUND)
"""Kinds of artifacts whose meta a summary holds; a job makes one of them at most."""


class Best(BaseModel):
    series: str
    value: float
    step: int


class JobRef(BaseModel):
    id: int
    title: str


class JobError(BaseModel):
    code: str
    message: str
    hint: str


class JobSummary(BaseModel):
    id: int
    verb: str
    title: str
    status: str
    stage: str
    done: int
    total: int
    progress: float | None
    """0 to 1, None where it is not known."""
    eta_s: float | None
    epoch: int | None
    epochs: int | None
    best: Best | None
    dataset: JobRef | None
    model: str | None
    model_label: str | None
    owner: str
    owner_id: int
    private: bool
    devices: list[str]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    """At work: of all attempts together, without what was waited and paused between them."""
    disk_bytes: int
    notes: str
    wait_reason: str
    resumes_when: str
    """Of a paused job: what it waits for, `server` or `disk`; empty where it waits for a person."""
    retry_of: int | None
    """The job in whose place it was started."""
    error: JobError | None
    last_seq: int
    n_attempts: int
    can_change: bool
    dataset_meta: dict[str, Any] | None = None
    """Of an import that succeeded: classes, counts, sizes, colour."""
    part_of: JobRef | None = None
    """The run that is evaluated or exported, or whose network classifies."""
    report_meta: dict[str, Any] | None = None
    """Of an evaluation, a classification or an export that succeeded: what it found, in short."""


def summaries_of(jobs: QuerySet[Job], user: User | None) -> list[JobSummary]:
    """Cost: four queries, however many jobs."""
    rows = list(
        jobs.select_related("owner", "part_of").prefetch_related(
            Prefetch("attempts", Attempt.objects.order_by("-n")),
            Prefetch("artifacts", Artifact.objects.filter(kind__in=_TOLD, trashed_at=None)),
        )
    )
    titles = titles_shown(rows, user)
    now = timezone.now()
    return [_summary(job, list(job.attempts.all()), titles, user, now) for job in rows]


def job_summary(job: Job, user: User | None = None) -> JobSummary:
    """Cost: four queries."""
    return summaries_of(Job.objects.filter(pk=job.pk), user)[0]


def titles_shown(jobs: Sequence[Job], user: User | None) -> dict[int, str]:
    """Of datasets and runs that these jobs name: one that everybody sees may name one that not everybody sees."""
    wanted = {found for job in jobs for found in (dataset_job_id(job.spec), job.part_of_id) if found is not None}
    sources = Job.objects.filter(pk__in=wanted).only("title", "verb", "private", "owner_id", "part_of_id")
    return {source.pk: source.title if _is_shown(source, user) else _hidden(source) for source in sources}


def _hidden(source: Job) -> str:
    return "a private dataset" if source.verb == "import" else "a private run"


def _is_shown(source: Job, user: User | None) -> bool:
    return not source.private or (user is not None and may_change(user, source))


def _summary(
    job: Job, attempts: Sequence[Attempt], titles: dict[int, str], user: User | None, now: datetime
) -> JobSummary:
    latest = attempts[0] if attempts else None
    dataset_id = dataset_job_id(job.spec)
    model = job.spec.get("model", {}).get("name")
    card = model_cards().get(model) if model else None
    told = {made.kind: made.meta for made in job.artifacts.all()}
    return JobSummary(
        id=job.pk,
        verb=job.verb,
        title=job.title,
        status=job.status,
        stage=job.stage,
        done=job.done,
        total=job.total,
        progress=_progress(job),
        eta_s=_eta_s(job, latest, now),
        epoch=_epoch(job, latest),
        epochs=job.spec.get("options", {}).get("epochs"),
        best=_best(job),
        dataset=None if dataset_id is None else JobRef(id=dataset_id, title=titles.get(dataset_id, "")),
        model=model,
        model_label=card.label if card else model,
        owner=job.owner.username,
        owner_id=job.owner_id,
        private=job.private,
        devices=list(latest.devices) if latest else [],
        created_at=job.created_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        duration_s=_worked_s(attempts, now),
        disk_bytes=job.disk_bytes,
        notes=job.notes,
        wait_reason=job.wait_reason,
        resumes_when=job.resumes_when,
        retry_of=job.retry_of_id,
        error=error_of(job),
        last_seq=job.last_seq,
        n_attempts=len(attempts),
        can_change=user is not None and may_change(user, job),
        dataset_meta=told.get("dataset"),
        part_of=None if job.part_of_id is None else JobRef(id=job.part_of_id, title=titles.get(job.part_of_id, "")),
        report_meta=next((told[kind] for kind in _FOUND if kind in told), None),
    )


def _worked_s(attempts: Sequence[Attempt], now: datetime) -> float | None:
    spans = [((attempt.ended_at or now) - attempt.started_at).total_seconds() for attempt in attempts]
    return sum(spans) if spans else None


def _progress(job: Job) -> float | None:
    if job.status == Status.SUCCEEDED:
        return 1.0
    return min(1.0, job.done / job.total) if job.total else None


def _eta_s(job: Job, latest: Attempt | None, now: datetime) -> float | None:
    """From the pace of the present attempt."""
    if latest is None or job.status != Status.RUNNING or not job.total:
        return None
    n_done = job.done - latest.from_step
    if n_done <= 0:
        return None
    elapsed_s = (now - latest.started_at).total_seconds()
    return max(0.0, elapsed_s / n_done * (job.total - job.done))


def _epoch(job: Job, latest: Attempt | None) -> int | None:
    """The epoch that is running, counted from 1; of an ended job the last whole one."""
    if latest is None or not latest.steps_per_epoch or job.total != latest.total_steps:
        return None
    n_whole = job.done // latest.steps_per_epoch
    if Status(job.status) in ENDED:
        return n_whole
    return min(n_whole + 1, latest.total_steps // latest.steps_per_epoch)


def _best(job: Job) -> Best | None:
    if job.best_value is None or job.best_step is None:
        return None
    return Best(series=job.best_series, value=job.best_value, step=job.best_step)


def error_of(job: Job) -> JobError | None:
    if not job.error_code:
        return None
    return JobError(code=job.error_code, message=job.error_message, hint=job.error_hint)
