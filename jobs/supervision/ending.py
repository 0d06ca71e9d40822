"""Closes an attempt: what became of the job, the devices given back, who waited for it woken, a training evaluated."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from pydantic import ValidationError

from jobs import retry, transitions
from jobs.lineage import wake_dependents
from jobs.logs import last_lines
from jobs.models import Attempt, DeviceLease, Job
from jobs.states import ENDED, Status
from jobs.storage import storage
from jobs.supervision.disk import taken_bytes
from jobs.supervision.engine import Exit
from jobs.supervision.verdict import Failure, Verdict, decide
from wire.errors import Unexpected
from wire.specs import ExitReport

log = logging.getLogger(__name__)


def close_by_exit(attempt: Attempt, how: Exit) -> None:
    """Close an attempt whose process has ended and whose events are all recorded. Doing it twice is doing it once."""
    report = read_exit_report(attempt)
    n_fruitless = retry.n_fruitless(attempt.job_id)
    log_tail = last_lines(attempt.job_id, attempt.n)
    _close(attempt, how, lambda status: decide(status, report, how, n_fruitless=n_fruitless, log_tail=log_tail))


def close_by_fault(attempt: Attempt, fault: str) -> None:
    """Close an attempt that cannot be supervised: ours to mend."""
    output = storage().job(attempt.job_id).attempt(attempt.n).supervisor_log_path.name
    failure = Failure(
        Unexpected.code,
        f"Supervising the run failed: {fault}",
        f"Report this with the file {output} of the attempt; the run's checkpoints are kept.",
    )
    _close(attempt, Exit(), lambda _status: Verdict((Status.ERRORED,), failure.message, failure))


def read_exit_report(attempt: Attempt) -> ExitReport | None:
    path = storage().job(attempt.job_id).attempt(attempt.n).exit_path
    try:
        return ExitReport.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _close(attempt: Attempt, how: Exit, judge: Callable[[Status], Verdict]) -> None:
    disk_bytes = taken_bytes(storage().job(attempt.job_id).path)
    while True:
        with transaction.atomic():
            if Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=False).exists():
                return
            status = Status(Job.objects.values_list("status", flat=True).get(pk=attempt.job_id))
            verdict = judge(status)
            if _follow(attempt, status, verdict, disk_bytes):
                Attempt.objects.filter(pk=attempt.pk).update(
                    ended_at=Now(), exit_code=how.code, signal=how.signal, reason=verdict.reason[:300]
                )
                DeviceLease.objects.filter(attempt=attempt).delete()
                if verdict.after is Status.SUCCEEDED:
                    _beside(attempt.job_id, "is not evaluated", _have_evaluated)
                if verdict.after in ENDED:
                    _beside(attempt.job_id, "wakes nobody", wake_dependents)
                return


def _beside(job_id: int, otherwise: str, action: Callable[[int], object]) -> None:
    """What follows an end. The job has ended, whatever becomes of this; who is not woken is at the next reconciling."""
    try:
        with transaction.atomic():
            action(job_id)
    except Exception:  # whatever it is: the end would be lost with the transaction around this
        log.exception("job=%s %s", job_id, otherwise)


def _have_evaluated(job_id: int) -> None:
    """Once a run, because it can succeed only once."""
    from jobs.services.evaluations import evaluation_submit_after  # not while an engine waits to be started

    evaluation_submit_after(Job.objects.select_related("owner").get(pk=job_id))


def _follow(attempt: Attempt, status: Status, verdict: Verdict, disk_bytes: int) -> bool:
    """Take the job along the verdict's path; False where somebody changed its state in between."""
    columns: dict[str, Any] = {"disk_bytes": disk_bytes}
    if verdict.after in ENDED:
        columns |= {"ended_at": Now(), "resume_at_start": False}
    if verdict.failure is not None:
        failure = verdict.failure
        columns |= {"error_code": failure.code, "error_message": failure.message, "error_hint": failure.hint}
    before = status
    for after in verdict.path:
        if not transitions.move(
            attempt.job_id, before=before, after=after, reason=verdict.reason, fence=attempt.fence, **columns
        ):
            return False
        before = after
    return True
