"""The engine's process as its supervisor sees it: one that it started, or one that it found running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.conf import settings

from jobs import launch
from jobs.models import Attempt
from jobs.process import ProcessIdentity, alive, find_leader, identify, signal_group
from jobs.storage import storage
from wire.beat import LEASED
from wire.layout import JobDir

BEAT_TIMEOUT_S = 60
NICE = 3
"""More than its supervisor's: beside a web server and a browser on the same cores a training lets them go first. Alone
it loses nothing."""
_NOT_FOR_THE_ENGINE = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE"}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended; nothing is known where it was another's child."""

    code: int | None = None
    signal: int | None = None
    note: str = "ended unseen"

    def __str__(self) -> str:
        if self.signal == signal.SIGALRM:
            return "ended itself: its lease had not been renewed in time"
        if self.signal is not None:
            return f"was killed by {signal.Signals(self.signal).name}"
        return self.note if self.code is None else f"ended with status {self.code}"


class Engine(Protocol):
    @property
    def identity(self) -> ProcessIdentity: ...

    @property
    def was_killed(self) -> bool:
        """Whether this supervisor has sent SIGKILL."""
        ...

    def poll(self) -> Exit | None:
        """How it ended; None while it runs."""
        ...

    def send(self, number: signal.Signals) -> None: ...


class StartedEngine:
    """A child of this process."""

    def __init__(self, attempt: Attempt, devices: Sequence[str]) -> None:
        """Start it.

        Args:
            attempt: which one.
            devices: UUIDs of the GPUs that it may use.
        """
        job = storage().job(attempt.job_id)
        with job.attempt(attempt.n).log_path.open("ab") as log:
            self._child = subprocess.Popen(
                _command(attempt, job),
                cwd=settings.BASE_DIR,
                env=_environment(attempt, devices),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: signals go to the whole group, and none comes from a terminal.
                start_new_session=True,
                close_fds=True,
            )
        identity = identify(self._child.pid)
        # It may have ended already; then its number is still its own, because nobody has waited for it.
        self.identity = identity or ProcessIdentity("", self._child.pid, 0)
        self.was_killed = False

    def poll(self) -> Exit | None:
        pid = self._child.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        # While it is a zombie its number cannot name another group: what it left behind ends here.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        code = self._child.wait()
        return Exit(signal=-code) if code < 0 else Exit(code=code)

    def send(self, number: signal.Signals) -> None:
        self.was_killed |= number == signal.SIGKILL
        signal_group(self.identity, number)


class FoundEngine:
    """A process that an earlier supervisor of the same attempt started."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self.was_killed = False

    def poll(self) -> Exit | None:
        return None if alive(self.identity) else Exit()

    def send(self, number: signal.Signals) -> None:
        self.was_killed |= number == signal.SIGKILL
        signal_group(self.identity, number)


def find_engine(attempt: Attempt) -> FoundEngine | None:
    """The engine of this attempt if one was ever started, running or not."""
    known = launch.engine_of(attempt)
    if known is None:
        # The earlier supervisor may have died between starting it and writing it down.
        known = find_leader(attempt_marker(attempt.pk))
    return None if known is None else FoundEngine(known)


def attempt_marker(attempt_id: int | None = None) -> str:
    """An environment variable of this attempt's engine and its children alone; without an id, how it begins."""
    return f"FOVEA_ATTEMPT={Path(settings.DATA_DIR)}:{'' if attempt_id is None else attempt_id}"


def _command(attempt: Attempt, job: JobDir) -> list[str]:
    engine: list[str] = settings.ENGINE_COMMAND
    return [*engine, attempt.job.verb, "--dir", str(job.path), "--attempt", str(attempt.n)]


def _environment(attempt: Attempt, devices: Sequence[str]) -> dict[str, str]:
    name, _, value = attempt_marker(attempt.pk).partition("=")
    own = {
        name: value,
        "CACHE_DIR": str(settings.CACHE_DIR),
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
        "FOVEA_BEAT_TIMEOUT_S": str(BEAT_TIMEOUT_S),
        "FOVEA_NICE": str(NICE),
        "PYTHONUNBUFFERED": "1",
        LEASED: "" if attempt.lease_expires_at is None else "1",
    }
    if settings.WEIGHTS_DIR:
        own["WEIGHTS_DIR"] = str(settings.WEIGHTS_DIR)
    return inherited_environment() | own


def inherited_environment() -> dict[str, str]:
    """Ours without the secrets of the server: the engine has no business with them."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_ENGINE}
