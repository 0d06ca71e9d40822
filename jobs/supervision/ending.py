"""Closes an attempt: what became of the job, the devices given back, who waited for it woken, a training evaluated."""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from pydantic import ValidationError

from jobs import retry, transitions
from jobs.lineage import wake_dependents
from jobs.logs import last_lines
from jobs.models import Attempt, DeviceLease, Job
from jobs.process import is_locked
from jobs.recorder import StaleFence
from jobs.room import waits_for_room
from jobs.states import ENDED, Status
from jobs.storage import storage
from jobs.supervision.disk import taken_bytes
from jobs.supervision.engine import Exit
from jobs.supervision.verdict import Failure, Found, Verdict, decide
from wire.errors import DiskFull, Unexpected
from wire.layout import JobDir
from wire.specs import ExitReport

RESUMABLE = frozenset({"train"})
"""Verbs whose next attempt goes on from a checkpoint; the others begin again."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


def close_by_exit(attempt: Attempt, how: Exit, found: Found | None = None, *, only: Q | None = None) -> bool:
    """Close an attempt whose process has ended and whose events are all recorded. Doing it twice is doing it once.

    Args:
        attempt: which one.
        how: what the kernel said of its process.
        found: what the surroundings of the process said.
        only: a further condition on the attempt's row, for one that is closed from outside.

    Returns:
        False where it is closed already, or the condition does not hold.
    """
    report = read_exit_report(attempt)
    n_fruitless = retry.n_fruitless(attempt.job_id)
    log_tail = last_lines(attempt.job_id, attempt.n)
    goes_on = attempt.job.verb in RESUMABLE
    return _close(
        attempt,
        how,
        lambda status: decide(
            status, report, how, n_fruitless=n_fruitless, log_tail=log_tail, goes_on=goes_on, found=found
        ),
        only=only,
    )


def close_by_fault(attempt: Attempt, error: Exception) -> None:
    """Close an attempt that cannot be supervised: ours to mend. On a full disk it is as if the engine had met it."""
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        report = ExitReport(outcome="errored", code=DiskFull.code, message=f"The disk is full: {error}.")
        goes_on = attempt.job.verb in RESUMABLE
        _close(attempt, Exit(), lambda status: decide(status, report, Exit(), goes_on=goes_on))
        return
    fault = f"{type(error).__name__}: {error}"
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


def _close(attempt: Attempt, how: Exit, judge: Callable[[Status], Verdict], *, only: Q | None = None) -> bool:
    rows = Attempt.objects.filter(only or Q(), pk=attempt.pk, ended_at__isnull=True)
    if not rows.exists():
        return False  # the folder may be another attempt's by now
    _remove_scratch(storage().job(attempt.job_id))
    disk_bytes = taken_bytes(storage().job(attempt.job_id).path)
    with transaction.atomic():
        # The lock that recording takes as well (``jobs.leases``): what is written for this attempt is written before.
        job = Job.objects.select_for_update().only("status").get(pk=attempt.job_id)
        verdict = judge(Status(job.status))
        columns = {"exit_code": how.code, "signal": how.signal, "reason": verdict.reason[:300]}
        if rows.update(ended_at=Now(), **columns) != 1:
            return False
        if not _follow(attempt, Status(job.status), verdict, disk_bytes):
            raise StaleFence(str(attempt))
        DeviceLease.objects.filter(attempt=attempt).delete()
        if verdict.after is Status.SUCCEEDED:
            _beside(attempt.job_id, "is not evaluated", _have_evaluated)
        if verdict.after in ENDED:
            _beside(attempt.job_id, "wakes nobody", wake_dependents)
    return True


def _remove_scratch(job: JobDir) -> None:
    """What an engine that was killed could not remove itself; another process's, if one holds the folder, is left."""
    if not is_locked(job.lock_path):
        shutil.rmtree(job.scratch_dir, ignore_errors=True)


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
    """Take the job along the verdict's path; False where the attempt's fence is stale."""
    columns: dict[str, Any] = {"disk_bytes": disk_bytes}
    if verdict.after in ENDED:
        columns |= {"ended_at": Now(), "resumes_when": "", "wait_reason": ""}
    if verdict.waits_for is not None:
        columns |= {"resumes_when": verdict.waits_for, "wait_reason": waits_for_room(attempt.job)}
    if verdict.failure is not None:
        failure = verdict.failure
        columns |= {"error_code": failure.code, "error_message": failure.message, "error_hint": failure.hint}
    if verdict.after is Status.PAUSED:
        columns |= {"error_code": "", "error_message": "", "error_hint": ""}  # nothing is wrong with the run
    before = status
    for after in verdict.path:
        if not transitions.move(
            attempt.job_id, before=before, after=after, reason=verdict.reason, fence=attempt.fence, **columns
        ):
            return False
        before = after
    return True
