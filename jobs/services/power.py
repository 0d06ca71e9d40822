"""The whole server stops, or comes back: trainings save a checkpoint first and go on later."""

from __future__ import annotations

import time

from jobs import suspension, transitions
from jobs.doorbell import ring_on_commit
from jobs.models import Job
from jobs.states import LIVE, Status

_LOOK_EVERY_S = 0.1


def trainings_suspend(*, wait_s: float = 0.0) -> int:
    """Ask all that runs to save and stop, let nothing new start, and wait at most ``wait_s`` for it.

    Returns:
        How many jobs still have a process.
    """
    suspension.suspend()
    deadline = time.monotonic() + wait_s
    while True:
        _ask_all_to_pause()
        n_live = Job.objects.filter(status__in=LIVE).count()
        if not n_live or time.monotonic() >= deadline:
            return n_live
        time.sleep(_LOOK_EVERY_S)


def _ask_all_to_pause() -> None:
    """A dispatch that was under way when the mark was set may start one more job, hence again at every look."""
    for job in Job.objects.filter(status__in=[Status.STARTING, Status.RUNNING]):
        transitions.move(
            job.pk,
            before=Status(job.status),
            after=Status.PAUSING,
            reason="the server is stopping",
            resume_at_start=True,
        )


def trainings_wake() -> int:
    """The server is back: lift the suspension, whoever made it, and queue what was paused. Gives how many."""
    suspension.lift()
    return trainings_resume()


def trainings_resume() -> int:
    """Queue again what the stop of the server paused, unless that stop is still under way. Gives how many.

    A training may go on saving long after the server is back, so this is asked again and again.
    """
    if suspension.is_suspended():
        return 0
    paused = Job.objects.filter(status=Status.PAUSED, resume_at_start=True).values_list("pk", flat=True)
    n_woken = sum(
        transitions.move(
            job_id, before=Status.PAUSED, after=Status.QUEUED, reason="the server is back", resume_at_start=False
        )
        for job_id in list(paused)
    )
    if n_woken:
        ring_on_commit()
    return n_woken
