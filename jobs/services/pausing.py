"""A person holds a training back, and lets it go on: its device is free meanwhile, and nothing of it is lost."""

from __future__ import annotations

from django.contrib.auth.models import User

from jobs import transitions
from jobs.access import job_for
from jobs.database import atomically
from jobs.doorbell import ring_on_commit
from jobs.models import Job
from jobs.room import check_room_to_go_on
from jobs.states import ENDED, ResumesWhen, Status
from wire.errors import ActionRefused

_RUNS = (Status.STARTING, Status.RUNNING)
_HELD_BACK = (Status.QUEUED, Status.LOST)
"""Without a process: paused at once."""


def job_pause(user: User, job_id: int) -> Job:
    """Let a training finish its step, save and give its device back; it goes on when it is resumed, and not before.

    One that is queued is held back. Of one that pauses already, for whatever reason, only a person's wish remains.

    Raises:
        ActionRefused: it has ended or is about to, waits for its dataset, is another's, or is no training.
    """
    while True:
        job = job_for(user, job_id, change=True)
        if _paused(job, Status(job.status), by=user):
            return job_for(user, job_id)


@atomically
def _paused(job: Job, status: Status, *, by: User) -> bool:
    """False where somebody changed its state in between."""
    if job.verb != "train":
        raise ActionRefused(
            f"{job.title} cannot be paused: it would have to begin again.",
            hint="Cancel it, and start it again later; or let it run.",
        )
    words = f"By {by.username}. It goes on when it is resumed."
    if status in {Status.PAUSING, Status.PAUSED}:
        rows = Job.objects.filter(pk=job.pk, status=status)
        return not job.resumes_when or _rewritten(rows.update(resumes_when="", wait_reason=words), job.pk)
    if status in _RUNS:
        after = Status.PAUSING
    elif status in _HELD_BACK:
        after = Status.PAUSED
    else:
        raise ActionRefused(f"{job.title} is {status}, and cannot be paused.", hint=_instead(status))
    return transitions.move(
        job.pk, before=status, after=after, reason=f"paused by {by.username}", resumes_when="", wait_reason=words
    )


def _rewritten(n_rows: int, job_id: int) -> bool:
    transitions.announce(job_id)
    return n_rows == 1


def _instead(status: Status) -> str:
    if status is Status.WAITING:
        return "It uses no device while it waits for its dataset; pause it when it is queued, or cancel it."
    if status is Status.CANCELLING:
        return "It saves a last checkpoint now, from which another training can begin."
    return "Only what has not ended can be paused."


def job_resume(user: User, job_id: int) -> Job:
    """Queue a paused job again: its next attempt goes on from the checkpoint that the last one saved.

    Where it is queued or runs already nothing happens.

    Raises:
        ActionRefused: it has ended, is still saving, or is another's.
        DiskFull: a full disk paused it, and there is too little room still.
    """
    while True:
        job = job_for(user, job_id, change=True)
        status = Status(job.status)
        if status is Status.PAUSED:
            if _resumed(job, by=user):
                return job_for(user, job_id)
            continue
        if status in ENDED or status is Status.CANCELLING:
            raise ActionRefused(
                f"{job.title} is {status}: it does not go on.", hint="Start it again; that makes a new run."
            )
        if status is Status.PAUSING:
            raise ActionRefused(
                f"{job.title} is still saving its checkpoint.", hint="Resume it in a moment, when it is paused."
            )
        return job


@atomically
def _resumed(job: Job, *, by: User) -> bool:
    if job.resumes_when == ResumesWhen.DISK:
        check_room_to_go_on(job)
    reason = f"resumed by {by.username}"
    won = transitions.move(
        job.pk, before=Status.PAUSED, after=Status.QUEUED, reason=reason, resumes_when="", wait_reason=""
    )
    if won:
        ring_on_commit()
    return won
