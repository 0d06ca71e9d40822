from __future__ import annotations

import logging
import threading
from pathlib import Path

BEAT_EVERY_S = 2.0

log = logging.getLogger(__name__)


class Beat(threading.Thread):
    """Touches the beat file, from a thread so that a database that does not answer stops no training."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="beat", daemon=True)
        self._path = path
        self._ended = threading.Event()

    def run(self) -> None:
        while True:
            try:
                self._path.touch()
            except OSError as error:
                log.warning("no beat: %s", error)
            if self._ended.wait(BEAT_EVERY_S):
                return

    def stop(self) -> None:
        self._ended.set()
        self.join()
