"""Ends an engine that hangs, after it has said where: its stacks are kept, and the attempt is judged as hung."""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from django.conf import settings

from jobs.supervision.engine import Engine
from jobs.supervision.pace import Pace, Silence
from wire.events import Envelope
from wire.layout import AttemptDir, JobDir

LEAST_S = 120.0
"""A shorter silence is no hang, whatever the pace."""
FILE_LOOKS = 12
"""At what the job writes, within that time."""
DUMP_WAIT_S = 3.0
"""From SIGUSR1 to SIGTERM: the stacks are written within milliseconds, unless the machine is very busy."""
STOP_WAIT_S = 20.0
"""From SIGTERM to SIGKILL: one that only waits for something may still save."""
MOST_STACK_BYTES = 256 * 1024
MOST_THREADS_SHOWN = 40
PATIENT_WITH = frozenset({"train"})
"""Verbs that are judged before their pace is known as well, with more patience."""
NOT_JUDGED = frozenset({"export"})
"""Its compilers are silent for as long as they like."""

log = logging.getLogger(__name__)


class _Stage(Enum):
    WATCHING = 0
    ASKED_FOR_STACKS = 1
    ASKED_TO_STOP = 2
    KILLED = 3


class HangWatch:
    """Watches one engine, and ends it step by step when it hangs: stacks, SIGTERM, SIGKILL. Never blocks."""

    def __init__(
        self,
        job: JobDir,
        attempt: AttemptDir,
        verb: str,
        *,
        steps_per_epoch: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._is_judged = verb not in NOT_JUDGED
        self._least_s: float = getattr(settings, "HANG_LEAST_S", LEAST_S)
        self._stop_wait_s: float = min(STOP_WAIT_S, getattr(settings, "STOP_GRACE_S", STOP_WAIT_S))
        self._clock = clock
        self._pace = Pace(
            least_s=self._least_s,
            steps_per_epoch=steps_per_epoch,
            judges_beginnings=verb in PATIENT_WITH,
            clock=clock,
        )
        self._stage = _Stage.WATCHING
        self._stage_began_at = 0.0
        self._silence: Silence | None = None
        self._log_size = self._dump_size = 0
        self._files: tuple[int, int, int] | None = None
        self._files_looked_at = self._files_changed_at = -math.inf

    def saw(self, envelopes: Iterable[Envelope]) -> None:
        self._pace.saw(envelopes)

    def look(self, engine: Engine) -> None:
        """To be called every second or so while the engine runs and nobody has asked it to stop."""
        if not self._is_judged:
            return
        silence = self._pace.silence()
        self._look_at_files()
        waited_s = self._clock() - self._stage_began_at
        match self._stage:
            case _Stage.WATCHING if silence is not None and not self._is_writing():
                self._ask_for_stacks(engine, silence)
            case _Stage.ASKED_FOR_STACKS if silence is None:
                log.info("attempt=%s goes on by itself", self._attempt.path)
                self._stage = _Stage.WATCHING
            case _Stage.ASKED_FOR_STACKS if self._has_dumped() or waited_s > DUMP_WAIT_S:
                self._ask_to_stop(engine)
            case _Stage.ASKED_TO_STOP if waited_s > self._stop_wait_s:
                log.warning("attempt=%s does not listen: killed", self._attempt.path)
                engine.send(signal.SIGKILL)
                self._enter(_Stage.KILLED)

    def _look_at_files(self) -> None:
        """Compared with the last look and with no clock: a file server dates its files by its own."""
        now = self._clock()
        if now - self._files_looked_at < self._least_s / FILE_LOOKS:
            return
        before, self._files = self._files, _state_of(self._job.artifacts_dir, self._job.scratch_dir)
        self._files_looked_at = now
        if before is not None and self._files != before:
            self._files_changed_at = now

    def _is_writing(self) -> bool:
        """Whether a file of the job has changed lately: a large checkpoint on a slow disk tells nothing for long."""
        return self._clock() - self._files_changed_at <= self._least_s

    def _ask_for_stacks(self, engine: Engine, silence: Silence) -> None:
        log.warning("attempt=%s hangs: %s", self._attempt.path, silence)
        self._silence = silence
        self._log_size = self._dump_size = _size_bytes(self._attempt.log_path)
        pid = engine.identity.pid
        if _catches(pid, signal.SIGUSR1):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        # One that somebody has stopped hears nothing until it goes on.
        engine.send(signal.SIGCONT)
        self._enter(_Stage.ASKED_FOR_STACKS)

    def _has_dumped(self) -> bool:
        """Whether something was written, and no more since the last look."""
        before, self._dump_size = self._dump_size, _size_bytes(self._attempt.log_path)
        return self._log_size < before == self._dump_size

    def _ask_to_stop(self, engine: Engine) -> None:
        with suppress(OSError):  # on a full disk: it is ended all the same
            self._keep_stacks(engine.identity.pid)
            self._attempt.stop_path.write_text("pause")
        engine.send(signal.SIGTERM)
        engine.send(signal.SIGCONT)
        self._enter(_Stage.ASKED_TO_STOP)

    def _keep_stacks(self, pid: int) -> None:
        with suppress(FileNotFoundError), self._attempt.log_path.open("rb") as file:
            file.seek(self._log_size)
            dumped = file.read(MOST_STACK_BYTES).decode("utf-8", errors="replace")
            text = "\n".join([str(self._silence), "", *_threads(pid), "", dumped])
            self._attempt.stacks_path.write_text(text)

    def _enter(self, stage: _Stage) -> None:
        self._stage = stage
        self._stage_began_at = self._clock()


def found_hung(attempt: AttemptDir) -> str:
    """How this attempt hung, in words; empty where it did not. From its file, so that any supervisor knows it."""
    try:
        with attempt.stacks_path.open(errors="replace") as file:
            return file.readline().strip()
    except FileNotFoundError:
        return ""


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process does something of its own with a signal that would end it otherwise."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def _threads(pid: int) -> Iterator[str]:
    """What the kernel says of each thread: the only witness where the process cannot answer."""
    yield "Threads as the kernel sees them (S sleeps, D waits for a disk, R runs, T is stopped):"
    tasks = Path(f"/proc/{pid}/task")
    with suppress(OSError):
        for task in sorted(tasks.iterdir(), key=lambda path: int(path.name))[:MOST_THREADS_SHOWN]:
            with suppress(OSError):
                name = (task / "comm").read_text().strip()
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                yield f"  {task.name} {name}: {state}, in {_waits_in(task)}"


def _waits_in(task: Path) -> str:
    try:
        where = (task / "wchan").read_text().strip()
    except OSError:
        where = ""
    return where if where not in {"", "0"} else "user code"


def _state_of(*folders: Path) -> tuple[int, int, int]:
    """Number, size and newest date of the files below; another one wherever something was written."""
    n_files = n_bytes = newest_ns = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    found = (Path(parent) / name).stat()
                    n_files, n_bytes = n_files + 1, n_bytes + found.st_size
                    newest_ns = max(newest_ns, found.st_mtime_ns)
    return n_files, n_bytes, newest_ns


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
