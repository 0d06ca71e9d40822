"""The wish to stop: a flag that signals and a silent supervisor set, and that the work reads between two steps."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Literal, TypeAlias

from wire.layout import AttemptDir

Wish: TypeAlias = Literal["cancel", "pause"]


class Stop:
    """Asked by SIGTERM or SIGINT, or by a beat that has grown old. Nothing is ever raised out of a signal handler."""

    def __init__(self, attempt: AttemptDir) -> None:
        self._attempt = attempt
        self._asked = False
        self._unattended = False

    @property
    def asked(self) -> bool:
        return self._asked

    @property
    def unattended(self) -> bool:
        """The supervisor is gone: nobody asked, the process stops by itself."""
        return self._unattended

    def ask(self) -> None:
        self._asked = True

    def ask_unattended(self) -> None:
        self._unattended = True
        self._asked = True

    @property
    def wish(self) -> Wish:
        """Why the stop was asked for. Meaningful once ``asked``; whoever sends SIGTERM writes the file first."""
        if self.unattended:
            return "pause"
        try:
            return "pause" if self._attempt.stop_path.read_text().strip() == "pause" else "cancel"
        except FileNotFoundError:
            return "cancel"

    @property
    def outcome(self) -> Literal["cancelled", "paused"]:
        return "paused" if self.wish == "pause" else "cancelled"


def listen(stop: Stop) -> None:
    """Let SIGTERM and SIGINT ask.

    Both are set whatever was inherited: a child of a Celery worker begins with SIGINT ignored. In a terminal a second
    Ctrl-C ends the process at once.
    """

    def asked(number: int, _frame: FrameType | None) -> None:
        stop.ask()
        if number == signal.SIGINT and os.isatty(0):
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)


class BeatWatch(threading.Thread):
    """Asks for a stop when the supervisor has not touched ``beat`` for ``timeout_s``.

    Only *changes* of the file's time are looked at, and their age is taken from the monotonic clock: a wall clock that
    is set by hours ends nobody's training.
    """

    def __init__(self, stop: Stop, attempt: AttemptDir, *, timeout_s: float) -> None:
        super().__init__(name="beat-watch", daemon=True)
        self._stop_wish = stop
        self._attempt = attempt
        self._timeout_s = timeout_s
        self._closed = threading.Event()

    def run(self) -> None:
        seen = self._touched_ns()
        seen_at = time.monotonic()
        while not self._closed.wait(min(2.0, self._timeout_s / 4)):
            touched = self._touched_ns()
            if touched != seen:
                seen, seen_at = touched, time.monotonic()
            elif time.monotonic() - seen_at > self._timeout_s:
                self._stop_wish.ask_unattended()
                return

    def close(self) -> None:
        self._closed.set()
        self.join()

    def _touched_ns(self) -> int:
        try:
            return self._attempt.beat_path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
