"""What a person does to a job that exists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from jobs import transitions
from jobs.access import job_for, may_see
from jobs.database import atomically
from jobs.doorbell import ring_on_commit
from jobs.housekeeping import move_to_trash
from jobs.lineage import dataset_spec_path, wake_dependents
from jobs.models import Job
from jobs.states import ALLOWED, ENDED, Status
from wire.errors import ActionRefused, SpecInvalid


def job_cancel(user: User, job_id: int) -> Job:
    """End a job: at once where nothing runs, else its process finishes its step, saves and says so.

    Raises:
        ActionRefused: it has ended already, or it is another's.
    """
    while True:
        job = job_for(user, job_id, change=True)
        status = Status(job.status)
        if status is Status.CANCELLING:
            return job
        if status in ENDED:
            raise ActionRefused(f"{job.title} is {status} already.", hint="Only what has not ended can be cancelled.")
        if _move_to_cancel(job, status, by=user):
            return job_for(user, job_id)


@atomically
def _move_to_cancel(job: Job, status: Status, *, by: User) -> bool:
    reason = f"cancelled by {by.username}"
    if Status.CANCELLED not in ALLOWED[status]:
        return transitions.move(
            job.pk, before=status, after=Status.CANCELLING, reason=reason, wait_reason="", resumes_when=""
        )
    won = transitions.move(
        job.pk,
        before=status,
        after=Status.CANCELLED,
        reason=reason,
        ended_at=Now(),
        wait_reason="",
        resumes_when="",
    )
    if won:
        wake_dependents(job.pk)
        ring_on_commit()
    return won


def job_rename(user: User, job_id: int, title: str) -> Job:
    job = job_for(user, job_id, change=True)
    wanted = title.strip()
    if not 1 <= len(wanted) <= 200:
        raise SpecInvalid(f"A title of {len(wanted)} characters.", hint="Give it 1 to 200 characters.")
    return _set(job, title=wanted)


def job_annotate(user: User, job_id: int, notes: str) -> Job:
    return _set(job_for(user, job_id, change=True), notes=notes)


@atomically
def _set(job: Job, **columns: str) -> Job:
    Job.objects.filter(pk=job.pk).update(**columns)
    transitions.announce(job.pk)
    job.refresh_from_db(fields=list(columns))
    return job


@atomically
def jobs_delete(user: User, ids: Collection[int]) -> int:
    """Move jobs with all they made to the trash, where they stay for a week: all of them or none.

    A run takes its parts along, whoever asked for them: evaluations, classifications, exports. Those that still wait
    are cancelled.

    Returns:
        How many were deleted, without what went along.

    Raises:
        ActionRefused: one has not ended, belongs to another, or something that stays depends on it.
    """
    wanted = sorted(set(ids))
    jobs = [job_for(user, job_id, change=True) for job_id in wanted]
    # Nothing more is made of a run from here on: exports are begun under this lock.
    list(Job.objects.select_for_update().filter(pk__in=wanted).order_by("pk").values_list("pk"))
    parts = list(Job.objects.filter(part_of__in=wanted, trashed_at=None).exclude(pk__in=wanted).order_by("pk"))
    # Before anything is refused: what is refused takes this back.
    waiting = {part.pk for part in parts if _cancelled(part, by=user)}
    unfinished = [job for job in (*jobs, *parts) if Status(job.status) not in ENDED and job.pk not in waiting]
    if unfinished:
        raise ActionRefused(f"Not ended yet: {names_of(unfinished, user)}.", hint="Cancel it first.")
    going = [*wanted, *(part.pk for part in parts)]
    if dependents := _dependents(going):
        raise ActionRefused(
            f"Still used by {names_of(dependents, user)}.", hint="Delete those too, or first; nothing was deleted."
        )
    Job.objects.filter(pk__in=going).update(trashed_at=timezone.now(), trashed_by=user)
    for job_id in going:
        transitions.announce(job_id)
        transaction.on_commit(partial(move_to_trash, job_id))
    return len(wanted)


def _cancelled(part: Job, *, by: User) -> bool:
    """End a part that has no process; False where it has one, or has ended."""
    status = Status(part.status)
    return status in {Status.WAITING, Status.QUEUED, Status.PAUSED} and _move_to_cancel(part, status, by=by)


def _dependents(ids: Sequence[int]) -> list[Job]:
    """Jobs outside ``ids`` that read what one of them made."""
    waiting = Q(status=Status.WAITING, spec__dataset__in=[dataset_spec_path(job_id) for job_id in ids])
    return list(
        Job.objects.filter(Q(inputs__artifact__made_by__in=ids) | waiting, trashed_at=None)
        .exclude(pk__in=ids)
        .distinct()
        .order_by("pk")
    )


def names_of(jobs: Sequence[Job], user: User, *, shown: int = 5) -> str:
    """Their titles and numbers, without the titles that this person may not read; of many the first ones."""
    titles = (job.title if may_see(user, job) else "a private run" for job in jobs)
    names = ", ".join(f"{title} (#{job.pk})" for title, job in zip(titles, jobs[:shown], strict=False))
    return names if len(jobs) <= shown else f"{names} and {len(jobs) - shown} more"
