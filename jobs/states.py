"""The life of a job, as a table. No Django here: the table can be read and tested alone."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    WAITING = "waiting"  # for its inputs
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    LOST = "lost"  # its processes are gone and said nothing
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # the user's to mend
    ERRORED = "errored"  # ours to mend
    CANCELLED = "cancelled"


class ResumesWhen(StrEnum):
    """What lets a paused job go on by itself."""

    SERVER = "server"  # is back
    DISK = "disk"  # has room again


S = Status
ALLOWED: dict[Status, frozenset[Status]] = {
    S.WAITING: frozenset({S.QUEUED, S.CANCELLED, S.FAILED}),
    S.QUEUED: frozenset({S.STARTING, S.PAUSED, S.CANCELLED}),  # paused: held back before it began
    S.STARTING: frozenset(
        {S.RUNNING, S.CANCELLING, S.PAUSING, S.PAUSED, S.SUCCEEDED, S.FAILED, S.ERRORED, S.LOST, S.QUEUED}
    ),
    S.RUNNING: frozenset({S.SUCCEEDED, S.FAILED, S.ERRORED, S.CANCELLING, S.PAUSING, S.PAUSED, S.LOST, S.QUEUED}),
    S.PAUSING: frozenset({S.PAUSED, S.CANCELLING, S.SUCCEEDED, S.FAILED, S.ERRORED, S.LOST}),
    S.PAUSED: frozenset({S.QUEUED, S.CANCELLED}),
    # A success that arrives while cancelling stays a success.
    S.CANCELLING: frozenset({S.CANCELLED, S.SUCCEEDED, S.FAILED, S.ERRORED}),
    S.LOST: frozenset({S.QUEUED, S.RUNNING, S.CANCELLING, S.CANCELLED, S.PAUSED, S.FAILED, S.ERRORED}),
    S.SUCCEEDED: frozenset(),
    S.FAILED: frozenset(),
    S.ERRORED: frozenset(),
    S.CANCELLED: frozenset(),
}
ENDED = frozenset(status for status, following in ALLOWED.items() if not following)
LIVE = frozenset({S.STARTING, S.RUNNING, S.PAUSING, S.CANCELLING})
"""A process exists, or is about to."""
