"""What stops or holds up every training at once, and lets them go on: the server's stop, a full disk."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.db.models import Exists, OuterRef, Q, QuerySet

from jobs import suspension, transitions
from jobs.doorbell import ring_on_commit
from jobs.host import host_name
from jobs.models import Attempt, Job
from jobs.room import missing_to_go_on_bytes, room_to_go_on_bytes, waits_for_room
from jobs.states import LIVE, ResumesWhen, Status

_LOOK_EVERY_S = 0.1


def trainings_suspend(*, wait_s: float = 0.0, only_here: bool = False) -> int:
    """Ask all that runs to save and stop, let nothing new start, and wait at most ``wait_s`` for it.

    Args:
        wait_s: how long.
        only_here: of several hosts this one alone stops; the others may go on with what it had.

    Returns:
        How many jobs still have a process.
    """
    suspension.suspend(only_here=only_here)
    theirs = (
        Q(Exists(Attempt.objects.filter(job=OuterRef("pk"), ended_at=None, host=host_name()))) if only_here else Q()
    )
    deadline = time.monotonic() + wait_s
    while True:
        _ask_to_pause(Job.objects.filter(theirs), "the host is stopping" if only_here else "the server is stopping")
        n_live = Job.objects.filter(theirs, status__in=LIVE).count()
        if not n_live or time.monotonic() >= deadline:
            return n_live
        time.sleep(_LOOK_EVERY_S)


def _ask_to_pause(jobs: QuerySet[Job], reason: str) -> None:
    """A dispatch that was under way when the mark was set may start one more job, hence again at every look."""
    for job in jobs.filter(status__in=[Status.STARTING, Status.RUNNING]):
        transitions.move(
            job.pk,
            before=Status(job.status),
            after=Status.PAUSING,
            reason=reason,
            resumes_when=ResumesWhen.SERVER,
            wait_reason="The server is stopping. It goes on when the server is back.",
        )


def trainings_wake() -> int:
    """The server is back: lift the suspension, whoever made it, and queue what was paused. Gives how many."""
    suspension.lift()
    return trainings_resume()


def trainings_resume() -> int:
    """Queue again what nobody has to wake: what the stop of the server paused, and a full disk. Gives how many.

    Nothing while the server is being stopped. A training may go on saving long after the server is back, and room on
    the disk is made by anybody, so this is asked again and again.
    """
    if suspension.is_suspended():
        return 0
    paused = list(Job.objects.filter(status=Status.PAUSED).exclude(resumes_when="").order_by("pk"))
    n_woken = sum(_woken(job, "the server is back") for job in paused if job.resumes_when == ResumesWhen.SERVER)
    n_woken += _resume_with_room([job for job in paused if job.resumes_when == ResumesWhen.DISK])
    if n_woken:
        ring_on_commit()
    return n_woken


def _resume_with_room(paused: Sequence[Job]) -> int:
    """Oldest first, for as many as there is room for together; the others are told how much is missing."""
    promised_bytes = n_woken = 0
    for job in paused:
        need_bytes = room_to_go_on_bytes(job)
        if not missing_to_go_on_bytes(job, promised_bytes):
            promised_bytes += need_bytes
            n_woken += _woken(job, "there is room on the disk again")
        else:
            _tell(job, waits_for_room(job))
    return n_woken


def _woken(job: Job, reason: str) -> bool:
    return transitions.move(
        job.pk, before=Status.PAUSED, after=Status.QUEUED, reason=reason, resumes_when="", wait_reason=""
    )


def _tell(job: Job, wait_reason: str) -> None:
    rows = Job.objects.filter(pk=job.pk, status=Status.PAUSED, resumes_when=job.resumes_when)
    if wait_reason != job.wait_reason and rows.update(wait_reason=wait_reason):
        transitions.announce(job.pk, fleeting=True)
