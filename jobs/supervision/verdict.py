"""What the end of a process means for its job. Pure: no database, no files."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.retry import INTERRUPTED, LEFT_DEVICE, LOST, MOST_FRUITLESS
from jobs.states import ResumesWhen, Status
from jobs.supervision.engine import Exit
from wire.errors import AttemptsExhausted, DeviceLost, DiskFull, HostOutOfMemory, Hung, JobLocked, Unexpected
from wire.events import Outcome
from wire.specs import ExitReport

OUTCOMES: dict[int | None, Outcome] = {64: "failed", 70: "errored", 75: "paused"}
"""Of a process by its exit status, where that is all it left."""
TRIED_AGAIN = {JobLocked.code, DeviceLost.code}
"""What a process may say of itself without its job having failed."""
DISK_WAS_FULL = 74
"""The exit status that says it where not even the report could be written."""


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
    waits_for: ResumesWhen | None = None
    """Of a job that pauses by itself."""

    @property
    def after(self) -> Status:
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class Found:
    """What the supervisor saw beside the exit, in words; empty where it saw nothing of the kind."""

    hung: str = ""
    """How long it was silent: then it was the supervisor that ended it."""
    no_memory: str = ""
    """That the system ended it for want of memory."""
    lost_devices: tuple[str, ...] = ()
    """Names of devices in use that are gone, and out of service now."""


def decide(
    status: Status,
    report: ExitReport | None,
    how: Exit,
    *,
    n_fruitless: int = 0,
    log_tail: str = "",
    goes_on: bool = False,
    found: Found | None = None,
) -> Verdict:
    """What becomes of a job.

    Args:
        status: the job's state when its process ended.
        report: the process's own words, if it got to say them.
        how: what the kernel said.
        n_fruitless: earlier attempts in a row that were lost without having got further.
        log_tail: the last lines of the log, for a job that is given up.
        goes_on: whether a further attempt goes on where this one was, so that it pays to wait for room on the disk.
        found: what the supervisor saw beside the exit.
    """
    found = found or Found()
    report = report or _by_exit_status(how, log_tail)
    # On a device that is gone, whatever the process met there says nothing about the job.
    if report is not None and not (found.lost_devices and report.outcome == "errored"):
        spoken = _by_full_disk(status, report, goes_on=goes_on) or _by_report(status, report)
        if spoken is not None:
            return spoken
    if status is Status.CANCELLING:
        return Verdict((Status.CANCELLED,), f"its process {how} while it was being cancelled")
    if status is Status.PAUSING:
        return Verdict((Status.PAUSED,), f"its process {how} while it was being paused")
    if found.no_memory and report is None:
        return _no_memory(found.no_memory)
    return _again_or_never(report, how, found, n_fruitless, log_tail)


def _by_exit_status(how: Exit, log_tail: str) -> ExitReport | None:
    """What the process would have reported, had it been able to write: a full disk refuses the report as well."""
    if how.code == DISK_WAS_FULL:
        hint = "Free some space, then start it again."
        return ExitReport(outcome="errored", code=DiskFull.code, message="The disk is full.", hint=hint)
    outcome = OUTCOMES.get(how.code)
    if outcome is None:
        return None
    if outcome == "paused":
        return ExitReport(outcome=outcome)
    message = f"The run could not write how it ended.\n{log_tail}".rstrip()
    hint = "Read the end of the log for the cause, and see whether the disk is full."
    return ExitReport(outcome=outcome, code=Unexpected.code, message=message, hint=hint)


def _by_full_disk(status: Status, report: ExitReport, *, goes_on: bool) -> Verdict | None:
    """A full disk ends nothing that can go on, and keeps nobody from stopping what he wants to stop."""
    if report.code != DiskFull.code or report.outcome != "errored":
        return None
    if status is Status.CANCELLING:
        return Verdict((Status.CANCELLED,), "stopped as asked; the disk was too full for a last checkpoint")
    if not goes_on:
        return None
    if status is Status.PAUSING:
        return Verdict((Status.PAUSED,), "paused as asked; the disk was too full for a last checkpoint")
    return Verdict((Status.PAUSED,), f"{report.code}: it goes on when there is room", waits_for=ResumesWhen.DISK)


def _by_report(status: Status, report: ExitReport) -> Verdict | None:
    """None where the report does not settle it: stopped though nobody asked, or shut out by another process."""
    match report.outcome:
        case "succeeded":
            return Verdict((Status.SUCCEEDED,), "succeeded")
        case "failed":
            return Verdict((Status.FAILED,), report.code, Failure(report.code, report.message, report.hint))
        case "errored" if report.code not in TRIED_AGAIN:
            return Verdict((Status.ERRORED,), report.code, Failure(report.code, report.message, report.hint))
        case "cancelled" | "paused" if status is Status.CANCELLING:
            return Verdict((Status.CANCELLED,), "stopped as asked")
        case "cancelled" | "paused" if status is Status.PAUSING:
            return Verdict((Status.PAUSED,), "paused as asked")
    return None


def _no_memory(what: str) -> Verdict:
    """At once: the next attempt would need as much."""
    failure = Failure(
        HostOutOfMemory.code,
        f"The machine's memory (RAM) was used up: {what}.",
        "Choose a smaller batch or image size, or start it again when other jobs have ended.",
    )
    return Verdict((Status.FAILED,), failure.code, failure)


def _again_or_never(report: ExitReport | None, how: Exit, found: Found, n_fruitless: int, log_tail: str) -> Verdict:
    if found.lost_devices:
        names = ", ".join(found.lost_devices)
        return Verdict(
            (Status.LOST, Status.QUEUED), f"{LEFT_DEVICE}: {names} does not answer and is out of service now"
        )
    kind, what, code = _what_happened(report, how, found)
    reason = f"{kind}: {what}"
    if n_fruitless + 1 < MOST_FRUITLESS:
        return Verdict((Status.LOST, Status.QUEUED), reason)
    failure = Failure(
        code,
        f"Given up after {MOST_FRUITLESS} attempts that got no further; in the last one {what}.\n{log_tail}".rstrip(),
        "Read the end of the log for the cause; then start it again.",
    )
    return Verdict((Status.LOST, Status.ERRORED), reason, failure)


def _what_happened(report: ExitReport | None, how: Exit, found: Found) -> tuple[str, str, str]:
    """Kind, what, and the code of a job that is given up for it."""
    if found.hung:
        return LOST, f"it hung: {found.hung}", Hung.code
    if report is None:
        return LOST, f"its process {how}", AttemptsExhausted.code
    if report.code == DeviceLost.code:
        return LOST, f"its device failed: {report.message.rstrip('.')}", DeviceLost.code
    return INTERRUPTED, report.message or "it stopped though nobody had asked", AttemptsExhausted.code
