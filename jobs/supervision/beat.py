from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from wire.beat import Deadlines, boot_clock_s, write_deadlines

BEAT_EVERY_S = 2.0
LOOK_EVERY_S = 0.25
"""At the clock, where there is a deadline."""

log = logging.getLogger(__name__)


class Beat(threading.Thread):
    """The sign of life that the trainer waits for, from a thread so that a database that does not answer holds up none.

    One host alone: the file is touched for as long as this process lives, whatever the database does. Between hosts
    it is written by each renewal of the lease and by nothing else; where those stay away, the trainer ends by itself,
    and this thread makes sure of it.

    Args:
        path: the beat file.
        is_leased: whether the attempt is held by a lease.
        end_engine: kills the trainer and all it has started.
    """

    def __init__(self, path: Path, *, is_leased: bool, end_engine: Callable[[], None]) -> None:
        super().__init__(name="beat", daemon=True)
        self._path = path
        self._is_leased = is_leased
        self._end_engine = end_engine
        self._deadlines: Deadlines | None = None
        self._ended = threading.Event()

    def renewed(self, deadlines: Deadlines) -> None:
        """Pass on until when the trainer may work."""
        self._deadlines = deadlines
        if not self._is_leased:
            return
        try:
            write_deadlines(self._path, deadlines)
        except OSError as error:
            log.warning("no beat: %s", error)

    def run(self) -> None:
        while True:
            if self._is_leased:
                self._look_at_clock()
            else:
                self._touch()
            if self._ended.wait(LOOK_EVERY_S if self._is_leased else BEAT_EVERY_S):
                return

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _touch(self) -> None:
        try:
            self._path.touch()
        except OSError as error:
            log.warning("no beat: %s", error)

    def _look_at_clock(self) -> None:
        if self._deadlines is not None and boot_clock_s() >= self._deadlines.end_at_s:
            self._end_engine()
