"""Puts right what a killed process left: attempts without a supervisor, leases without an attempt, forgotten sleepers.

It looks at processes, never at age: a supervisor that is slow is not dead. What other hosts left is for
``jobs.takeover``.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from jobs import launch, transitions
from jobs.host import attempts_here
from jobs.lineage import dataset_job_id, wake_dependents
from jobs.models import Attempt, DeviceLease, Job
from jobs.states import LIVE, Status

log = logging.getLogger(__name__)


def reconcile() -> list[int]:
    """Gives the ids of the attempts that got a new supervisor."""
    launch.reap()
    DeviceLease.objects.filter(attempt__ended_at__isnull=False).delete()
    _wake_sleepers()
    _settle_unattended()
    orphans = [
        attempt
        for attempt in Attempt.objects.filter(attempts_here(), ended_at__isnull=True)
        if not launch.is_supervised(attempt)
    ]
    return [attempt.pk for attempt in orphans if _adopt(attempt)]


def _adopt(attempt: Attempt) -> bool:
    """False where no supervisor could be started: the others are adopted all the same, this one at the next look."""
    log.warning("adopting job=%s attempt=%s: its supervisor is gone", attempt.job_id, attempt.n)
    try:
        launch.start_supervisor(attempt)
    except OSError as error:
        log.error("job=%s attempt=%s gets no supervisor: %s", attempt.job_id, attempt.n, error)  # noqa: TRY400
        return False
    return True


def _settle_unattended() -> None:
    """Jobs that should have an attempt and have none: what was wished of them is done, the others go on."""
    for job_id in _unattended().values_list("pk", flat=True):
        with transaction.atomic():
            job = _unattended().select_for_update().filter(pk=job_id).first()
            if job is not None:
                _settle(job_id, Status(job.status))


def _unattended() -> QuerySet[Job]:
    open_attempts = Attempt.objects.filter(job=OuterRef("pk"), ended_at__isnull=True)
    return Job.objects.filter(~Exists(open_attempts), status__in=LIVE)


def _settle(job_id: int, status: Status) -> None:
    log.error("job=%s is %s, and no attempt of it is open", job_id, status)
    after = {Status.CANCELLING: Status.CANCELLED, Status.PAUSING: Status.PAUSED}.get(status, Status.QUEUED)
    columns: dict[str, Any] = {"ended_at": Now()} if after is Status.CANCELLED else {}
    transitions.move(job_id, before=status, after=after, reason="no attempt of it was open", **columns)
    wake_dependents(job_id)


def _wake_sleepers() -> None:
    """Jobs that began to wait at the very moment when what they wait for was ready, and whom nobody woke."""
    waiting = Job.objects.filter(status=Status.WAITING)
    imports = {dataset_job_id(spec) for spec in waiting.filter(verb="train").values_list("spec", flat=True)}
    runs = set(waiting.filter(verb="export").values_list("part_of", flat=True))
    for job_id in imports | runs:
        if job_id is not None:
            wake_dependents(job_id)
