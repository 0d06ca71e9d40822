"""What a supervisor sees of its engine's health while it runs, and what it says when the engine has ended."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Sequence

from django.conf import settings

from jobs.devices import drain_if_lost
from jobs.models import Attempt, Device
from jobs.storage import storage
from jobs.supervision.engine import Engine, Exit
from jobs.supervision.hang import HangWatch, found_hung
from jobs.supervision.log_cap import LogCap
from jobs.supervision.oom import MemoryWatch, go_first
from jobs.supervision.patience import patiently
from jobs.supervision.verdict import Found
from wire.errors import DeviceLost
from wire.events import Envelope
from wire.specs import ExitReport

LOOK_EVERY_S = 1.0
LOOK_AT_DEVICES_EVERY_S = 3.0
LEAVE_GRACE_S = 10.0
"""For an engine whose device is gone, from SIGTERM to SIGKILL: it may still be able to save."""

log = logging.getLogger(__name__)


class Doctor:
    """Of one engine process, from its start (or adoption) to its end."""

    def __init__(self, attempt: Attempt, engine: Engine) -> None:
        job = storage().job(attempt.job_id)
        self._attempt = attempt
        self._engine = engine
        self._dir = job.attempt(attempt.n)
        go_first(engine.identity.pid)
        self._memory = MemoryWatch(engine.identity.pid)
        self._hang = HangWatch(job, self._dir, attempt.job.verb, steps_per_epoch=attempt.steps_per_epoch)
        self._log_cap = LogCap(self._dir.log_path)
        self._log_cap.start()
        self._leave = _Leave(engine)
        self._on_gpu = bool(patiently(self._uuids))
        self._devices_due_at = 0.0

    def saw(self, envelopes: Sequence[Envelope]) -> None:
        self._hang.saw(envelopes)

    def look(self, *, is_stopping: bool) -> None:
        """To be called every second while the engine runs.

        Args:
            is_stopping: it was asked to stop, and somebody counts the seconds already.
        """
        self._memory.look()
        if not is_stopping:
            self._hang.look(self._engine)
        now = time.monotonic()
        if self._on_gpu and now >= self._devices_due_at:
            self._devices_due_at = now + LOOK_AT_DEVICES_EVERY_S
            if patiently(self._lost_devices):
                self._leave.look()

    def found(self, how: Exit, report: ExitReport | None) -> Found:
        """What is known of the end, once the process is gone. Cost: a look at the GPU driver where a GPU seems lost."""
        self._log_cap.stop()
        if self._on_gpu and report is not None and report.code == DeviceLost.code:
            patiently(lambda: drain_if_lost(self._uuids(), job_id=self._attempt.job_id))
        return Found(
            hung=found_hung(self._dir),
            no_memory="" if report else self._memory.found(how, killed_by_us=self._engine.was_killed),
            lost_devices=tuple(patiently(self._lost_devices)) if self._on_gpu else (),
        )

    def close(self) -> None:
        """Leave no thread behind, however the supervisor ends."""
        self._log_cap.stop()

    def _uuids(self) -> list[str]:
        leased = Device.objects.filter(lease__attempt=self._attempt, kind="cuda")
        return list(leased.values_list("uuid", flat=True))

    def _lost_devices(self) -> list[str]:
        """Names of the devices in use that the agent has found gone."""
        leased = Device.objects.filter(lease__attempt=self._attempt, lost=True)
        return list(leased.values_list("name", flat=True))


class _Leave:
    """Ends an engine whose device is gone: what it computes there never comes back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told_at: float | None = None

    def look(self) -> None:
        if self._told_at is None:
            log.warning("pid=%s has to leave its device", self._engine.identity.pid)
            self._told_at = time.monotonic()
            self._engine.send(signal.SIGTERM)
        elif time.monotonic() - self._told_at > min(LEAVE_GRACE_S, getattr(settings, "STOP_GRACE_S", LEAVE_GRACE_S)):
            self._engine.send(signal.SIGKILL)
