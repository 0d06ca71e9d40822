"""Runs and imports: lists, one of them, and what a person does to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db import transaction
from ninja import Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.api.bodies import JobId, Page, answers
from dashboard.visitor import SignedIn
from jobs.access import job_for
from jobs.diagnosis import Diagnosis, diagnose
from jobs.requests import InitRequest, TrainingRequest
from jobs.selectors import (
    ArtifactInfo,
    JobSummary,
    NoticeInfo,
    TimelineEntry,
    artifacts_of,
    job_summary,
    jobs_of,
    notices_of,
    timeline_of,
)
from jobs.services import (
    job_annotate,
    job_begin_anew,
    job_cancel,
    job_clone,
    job_mend,
    job_pause,
    job_rename,
    job_resume,
    job_retry,
    jobs_delete,
    training_request_of,
)
from wire.specs import Choice

router = Router()


class JobChange(Schema):
    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    notes: Annotated[str, Field(max_length=100_000)] | None = None


class Mend(Schema):
    model_config = ConfigDict(extra="forbid")

    fix: Annotated[str, Field(min_length=1, max_length=40)]


class TrainingChanges(Schema):
    """What is different from the training that is repeated; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(max_length=200)] | None = None
    notes: str | None = None
    dataset: JobId | None = None
    model: Choice | None = None
    task: Choice | None = None
    init: InitRequest | None = None
    options: dict[str, Any] = {}
    """Only those that change."""
    devices: list[str] | None = None
    private: bool | None = None


class JobIds(Schema):
    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[int], Field(min_length=1, max_length=1000)]


class Deleted(Schema):
    n_deleted: int


@router.get("", response=answers(list[JobSummary]), summary="Runs and imports")
def jobs_list(
    request: SignedIn,
    verb: Literal["", "train", "import", "evaluate", "classify", "export"] = "",
    part_of: JobId | None = None,
    status: str = "",
    q: str = "",
    sort: str = "-created",
    limit: Page = 1000,
) -> list[JobSummary]:
    """`status` may name several with commas, or `active`; `sort` takes `-` for descending.

    Evaluations, classifications and exports belong to a run: they are listed by their verb, or by `part_of`,
    the run's id.
    """
    return jobs_of(request.user, verb=verb, part_of=part_of, q=q, status=status, sort=sort, limit=limit)


@router.post("/delete", response=answers(Deleted), summary="Delete several")
def jobs_remove(request: SignedIn, chosen: JobIds) -> Deleted:
    """All of them or none: refused, with names, while one still runs or something depends on it."""
    return Deleted(n_deleted=jobs_delete(request.user, chosen.ids))


@router.get("/{int:job_id}", response=answers(JobSummary), summary="One run or import")
def job_get(request: SignedIn, job_id: int) -> JobSummary:
    return job_summary(job_for(request.user, job_id), request.user)


@router.patch("/{int:job_id}", response=answers(JobSummary), summary="Change title or notes")
def job_change(request: SignedIn, job_id: int, change: JobChange) -> JobSummary:
    job = job_for(request.user, job_id, change=True)
    with transaction.atomic():
        if change.title is not None:
            job_rename(request.user, job_id, change.title)
        if change.notes is not None:
            job_annotate(request.user, job_id, change.notes)
    return job_summary(job, request.user)


@router.delete("/{int:job_id}", response=answers(None, status=204), summary="Delete one")
def job_remove(request: SignedIn, job_id: int) -> Status[None]:
    jobs_delete(request.user, [job_id])
    return Status(204, None)


@router.post("/{int:job_id}/cancel", response=answers(JobSummary), summary="Cancel")
def job_end(request: SignedIn, job_id: int) -> JobSummary:
    """A run finishes its step, saves and says so; what only waits ends at once."""
    return job_summary(job_cancel(request.user, job_id), request.user)


@router.post("/{int:job_id}/pause", response=answers(JobSummary), summary="Pause a training")
def job_hold(request: SignedIn, job_id: int) -> JobSummary:
    """It finishes its step, saves and gives its device back; one that is queued is held back."""
    return job_summary(job_pause(request.user, job_id), request.user)


@router.post("/{int:job_id}/resume", response=answers(JobSummary), summary="Resume")
def job_go_on(request: SignedIn, job_id: int) -> JobSummary:
    """Queued again: it goes on from the checkpoint that it saved when it was paused."""
    return job_summary(job_resume(request.user, job_id), request.user)


@router.post("/{int:job_id}/retry", response=answers(JobSummary, status=201), summary="Start again as a new job")
def job_again(request: SignedIn, job_id: int) -> Status[JobSummary]:
    """The same once more, of what has ended; asked for twice, it is the same new job until that has ended."""
    return Status(201, job_summary(job_retry(request.user, job_id), request.user))


@router.post("/{int:job_id}/clone", response=answers(JobSummary, status=201), summary="Train again with changes")
def job_copy(request: SignedIn, job_id: int, changes: TrainingChanges) -> Status[JobSummary]:
    """A new training; the body names what is different, for example `{"options": {"epochs": 5}}`."""
    told = changes.model_dump(mode="json", exclude_none=True)
    return Status(201, job_summary(job_clone(request.user, job_id, told), request.user))


@router.post("/{int:job_id}/begin-anew", response=answers(JobSummary, status=201), summary="Begin again from step 0")
def job_anew(request: SignedIn, job_id: int) -> Status[JobSummary]:
    """A new training in place of one of whose checkpoints none can be read; those files are kept."""
    return Status(201, job_summary(job_begin_anew(request.user, job_id), request.user))


@router.get("/{int:job_id}/diagnosis", response=answers(Diagnosis | None), summary="Why it failed, and what mends it")
def job_diagnosis(request: SignedIn, job_id: int) -> Diagnosis | None:
    """`null` where nothing went wrong. Each of `fixes` is a name for `mend`; the first is the usual one."""
    return diagnose(job_for(request.user, job_id))


@router.post("/{int:job_id}/mend", response=answers(JobSummary, status=201), summary="Start again with a fix")
def job_fix(request: SignedIn, job_id: int, wish: Mend) -> Status[JobSummary]:
    """A new training, which is the one that failed with one of the fixes of its diagnosis."""
    return Status(201, job_summary(job_mend(request.user, job_id, wish.fix), request.user))


@router.get("/{int:job_id}/timeline", response=answers(list[TimelineEntry]), summary="Status changes")
def job_timeline(request: SignedIn, job_id: int) -> list[TimelineEntry]:
    return timeline_of(job_for(request.user, job_id))


@router.get("/{int:job_id}/notices", response=answers(list[NoticeInfo]), summary="Notices and warnings")
def job_notices(request: SignedIn, job_id: int) -> list[NoticeInfo]:
    return notices_of(job_for(request.user, job_id))


@router.get("/{int:job_id}/artifacts", response=answers(list[ArtifactInfo]), summary="What it made")
def job_artifacts(request: SignedIn, job_id: int) -> list[ArtifactInfo]:
    return artifacts_of(job_for(request.user, job_id))


@router.get("/{int:job_id}/spec", response=answers(dict[str, Any]), summary="What the engine was given")
def job_spec(request: SignedIn, job_id: int) -> Any:
    """The content of `spec.json`, which `python -m engine` reads."""
    return job_for(request.user, job_id).spec


@router.get("/{int:job_id}/request", response=answers(TrainingRequest), summary="What to send to train again")
def job_request(request: SignedIn, job_id: int) -> TrainingRequest:
    """What to send to `/trainings` to train again, after changes."""
    return training_request_of(job_for(request.user, job_id))
