"""Tells a service that keeps dying from one that was restarted once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path

from config.start.supervisor import ProgramStatus

MANY_STARTS = 3
WINDOW_S = 60.0
QUIET_S = 60.0
"""No second word about the same service within this time."""


class Watch:
    """Counts the starts of each program by its start time."""

    def __init__(self) -> None:
        self._starts: dict[str, deque[float]] = defaultdict(deque)
        self._last_start: dict[str, int] = {}
        self._said_at: dict[str, float] = {}

    def dying(self, statuses: Iterable[ProgramStatus], now_s: float) -> list[str]:
        """Names of the programs to report now.

        Args:
            statuses: What supervisord says at this moment.
            now_s: A monotonic clock's reading.
        """
        found = []
        for status in statuses:
            starts = self._starts[status.name]
            if status.started_at != self._last_start.get(status.name):
                self._last_start[status.name] = status.started_at
                starts.append(now_s)
            while starts and now_s - starts[0] > WINDOW_S:
                starts.popleft()
            said_at = self._said_at.get(status.name)
            if len(starts) >= MANY_STARTS and (said_at is None or now_s - said_at >= QUIET_S):
                self._said_at[status.name] = now_s
                found.append(status.name)
        return found


def last_lines(log_path: Path, n_lines: int = 12, tail_bytes: int = 8_192) -> list[str]:
    """The end of a log file; empty where there is none."""
    try:
        with log_path.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - tail_bytes))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-n_lines:]
