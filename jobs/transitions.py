"""The only place that sets a job's status."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from jobs import records
from jobs.models import Attempt, Job, Transition
from jobs.states import ALLOWED, Status
from jobs.stream import publish_change


class IllegalTransition(Exception):
    pass


def begin(*, status: Status, reason: str = "", **columns: Any) -> Job:
    """Create a job in its first state."""
    with transaction.atomic():
        job = Job.objects.create(status=status, **columns)
        Transition.objects.create(job=job, before="", after=status, reason=reason)
        announce(job.pk)
    return job


def move(
    job_id: int, *, before: Status, after: Status, reason: str = "", fence: int | None = None, **columns: Any
) -> bool:
    """Move a job from one state to another, setting ``columns`` in the same UPDATE.

    Args:
        job_id: which job.
        before: the state it must be in.
        after: the state it gets.
        reason: for the timeline.
        fence: of the attempt on whose behalf this is done; refused where a newer attempt exists.
        columns: further columns of the row.

    Returns:
        False where another process was first, or the fence is stale.

    Raises:
        IllegalTransition: the table of states has no such step.
    """
    if after not in ALLOWED[before]:
        raise IllegalTransition(f"{before} -> {after}")
    with transaction.atomic():
        rows = Job.objects.filter(pk=job_id, status=before)
        if fence is not None:
            rows = rows.exclude(Exists(Attempt.objects.filter(job=OuterRef("pk"), fence__gt=fence)))
        if rows.update(status=after, **columns) != 1:
            return False
        Transition.objects.create(job_id=job_id, before=before, after=after, reason=reason[:300])
        announce(job_id)
    return True


def announce(job_id: int, *, fleeting: bool = False) -> None:
    """Once the present transaction is committed, tell open pages that the row changed, and keep its record.

    Args:
        job_id: which job.
        fleeting: what changed is worth showing and not worth keeping.
    """
    transaction.on_commit(partial(publish_change, job_id))
    if not fleeting:
        transaction.on_commit(partial(records.keep, job_id))
