"""What the end of a process means for its job. Pure: no database, no files."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.retry import INTERRUPTED, LOST, MOST_FRUITLESS
from jobs.states import Status
from jobs.supervision.engine import Exit
from wire.errors import AttemptsExhausted, JobLocked, Unexpected
from wire.events import Outcome
from wire.specs import ExitReport

OUTCOMES: dict[int | None, Outcome] = {64: "failed", 70: "errored", 75: "paused"}
"""Of a process by its exit status, where that is all it left."""


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Verdict:
    path: tuple[Status, ...]
    """States to go through, the last being where the job stays."""
    reason: str
    failure: Failure | None = None

    @property
    def after(self) -> Status:
        return self.path[-1]


def decide(
    status: Status, report: ExitReport | None, how: Exit, *, n_fruitless: int = 0, log_tail: str = ""
) -> Verdict:
    """What becomes of a job.

    Args:
        status: the job's state when its process ended.
        report: the process's own words, if it got to say them.
        how: what the kernel said.
        n_fruitless: earlier attempts in a row that were lost without having got further.
        log_tail: the last lines of the log, for a job that is given up.
    """
    report = report or _by_exit_status(how, log_tail)
    if report is not None:
        spoken = _by_report(status, report)
        if spoken is not None:
            return spoken
    if status is Status.CANCELLING:
        return Verdict((Status.CANCELLED,), f"its process {how} while it was being cancelled")
    if status is Status.PAUSING:
        return Verdict((Status.PAUSED,), f"its process {how} while it was being paused")
    return _again_or_never(report, how, n_fruitless, log_tail)


def _by_exit_status(how: Exit, log_tail: str) -> ExitReport | None:
    """What the process would have reported, had it been able to write: a full disk refuses the report as well."""
    outcome = OUTCOMES.get(how.code)
    if outcome is None:
        return None
    if outcome == "paused":
        return ExitReport(outcome=outcome)
    message = f"The run could not write how it ended.\n{log_tail}".rstrip()
    hint = "Read the end of the log for the cause, and see whether the disk is full."
    return ExitReport(outcome=outcome, code=Unexpected.code, message=message, hint=hint)


def _by_report(status: Status, report: ExitReport) -> Verdict | None:
    """None where the report does not settle it: stopped though nobody asked, or shut out by another process."""
    match report.outcome:
        case "succeeded":
            return Verdict((Status.SUCCEEDED,), "succeeded")
        case "failed":
            return Verdict((Status.FAILED,), report.code, Failure(report.code, report.message, report.hint))
        case "errored" if report.code != JobLocked.code:
            return Verdict((Status.ERRORED,), report.code, Failure(report.code, report.message, report.hint))
        case "cancelled" | "paused" if status is Status.CANCELLING:
            return Verdict((Status.CANCELLED,), "stopped as asked")
        case "cancelled" | "paused" if status is Status.PAUSING:
            return Verdict((Status.PAUSED,), "paused as asked")
    return None


def _again_or_never(report: ExitReport | None, how: Exit, n_fruitless: int, log_tail: str) -> Verdict:
    if report is not None:
        kind, what = INTERRUPTED, report.message or "it stopped though nobody had asked"
    else:
        kind, what = LOST, f"its process {how}"
    reason = f"{kind}: {what}"
    if n_fruitless + 1 < MOST_FRUITLESS:
        return Verdict((Status.LOST, Status.QUEUED), reason)
    failure = Failure(
        AttemptsExhausted.code,
        f"Given up after {MOST_FRUITLESS} attempts that got no further; in the last one {what}.\n{log_tail}".rstrip(),
        "Read the end of the log for the cause; then start it again.",
    )
    return Verdict((Status.LOST, Status.ERRORED), reason, failure)
