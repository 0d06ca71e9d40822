"""Waiting for jobs that run in real processes."""

from __future__ import annotations

from jobs import launch
from jobs.dispatch import dispatch
from jobs.models import Job
from jobs.states import ENDED
from jobs.storage import storage
from tests.surroundings import until

PATIENCE_S = 240


def until_ended(job):
    """Rings as the agent does."""
    until(lambda: [dispatch()] and Job.objects.get(pk=job.pk).status in ENDED, timeout_s=PATIENCE_S)
    job.refresh_from_db()
    return job


def until_quiet():
    """Until nothing is left to do, nor a process that did it."""
    until(lambda: [dispatch()] and not Job.objects.exclude(status__in=ENDED).exists(), timeout_s=PATIENCE_S)
    until(lambda: launch.reap() or not launch._children)


def log_of(job):
    return "".join(path.read_text() for path in sorted(storage().job(job.pk).path.glob("attempts/*/*.txt")))
