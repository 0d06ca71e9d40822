"""Whether the system ended an engine because memory ran out, and that it ends the engine before anything else."""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.sizes import size_text
from jobs.supervision.engine import Exit

PREFERENCE = 500
"""Of -1000 to 1000: an engine goes before web server, database and supervisor, and can be begun again."""
RECENT_S = 15.0
"""A kill by the system that was counted longer ago was another process's."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    kills_here: int | None
    """In the control group of the engine; None where there is none to ask."""
    kills_anywhere: int
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Places:
    """Where the kernel tells; tests have their own."""

    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")


class MemoryWatch:
    """Notes how often the system has ended a process for want of memory, so that the last moment can be compared."""

    def __init__(self, pid: int, *, places: Places | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._pid = pid
        self._places = places or Places()
        self._clock = clock
        self._counter: Path | None = None
        self._peak_bytes = 0
        self._samples: deque[_Sample] = deque()
        self.look()

    def look(self) -> None:
        """To be called every second or so while the engine runs."""
        sample = self._sample()
        self._peak_bytes = max(self._peak_bytes, sample.rss_bytes)
        self._samples.append(sample)
        # One that is older than what counts as recent stays, for the comparison.
        while len(self._samples) > 1 and self._samples[1].at_s < sample.at_s - RECENT_S:
            self._samples.popleft()

    def found(self, how: Exit, *, killed_by_us: bool) -> str:
        """In words what happened, where memory is what ended it; else empty.

        The counter of the engine's own control group says it for certain. The machine's counts other processes too, so
        it is believed only of one that was seen to die by SIGKILL.
        """
        if killed_by_us or how.code is not None or how.signal not in {None, signal.SIGKILL}:
            return ""
        first, last = self._samples[0], self._sample()
        rose_here = first.kills_here is not None and last.kills_here is not None and last.kills_here > first.kills_here
        rose_anywhere = how.signal == signal.SIGKILL and last.kills_anywhere > first.kills_anywhere
        if not (rose_here or rose_anywhere):
            return ""
        if not self._peak_bytes:
            return "the system ended it"
        limit_bytes = self._limit_bytes()
        limit = f" of the {size_text(limit_bytes)} that it may have" if limit_bytes else ""
        return f"the system ended it; when last looked at it had taken {size_text(self._peak_bytes)}{limit}"

    def _sample(self) -> _Sample:
        process = self._places.proc / str(self._pid)
        counter = self._counter_of(process)
        if counter is not None:
            self._counter = counter
        return _Sample(
            at_s=self._clock(),
            kills_here=None if self._counter is None else _value_of(self._counter, "oom_kill"),
            kills_anywhere=_value_of(self._places.proc / "vmstat", "oom_kill") or 0,
            rss_bytes=(_value_of(process / "status", "VmRSS:") or 0) * 1024,
        )

    def _counter_of(self, process: Path) -> Path | None:
        """The file that counts kills in the process's control group, of either version; asked while it lives."""
        for line in _lines(process / "cgroup"):
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            inner = path.lstrip("/")
            if controllers == "" and (found := self._places.cgroup / inner / "memory.events").is_file():
                return found
            if "memory" in controllers.split(","):
                # In a container the path is the host's, and its own group is the root of what it sees.
                for folder in (self._places.cgroup / "memory" / inner, self._places.cgroup / "memory"):
                    if (found := folder / "memory.oom_control").is_file():
                        return found
        return None

    def _limit_bytes(self) -> int:
        """Of the control group; 0 where it has none."""
        if self._counter is None:
            return 0
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = "".join(_lines(self._counter.parent / name))
            if text.isdecimal() and int(text) < 2**60:
                return int(text)
        return 0


def go_first(pid: int) -> None:
    """Let the system end this process, and those that it starts, before others when memory runs out."""
    path = Path(f"/proc/{pid}/oom_score_adj")
    try:
        if int(path.read_text()) < PREFERENCE:
            path.write_text(str(PREFERENCE))
    except (OSError, ValueError) as error:
        log.debug("pid=%s keeps its place when memory runs out: %s", pid, error)


def _lines(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text().splitlines()
    return []


def _value_of(path: Path, name: str) -> int | None:
    """Of a file with a name and a number a line."""
    for line in _lines(path):
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None
