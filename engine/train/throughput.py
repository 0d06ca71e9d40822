from __future__ import annotations

import time
from collections.abc import Callable


class Throughput:
    """Images a second, and the share of time that went into waiting for them, since the last reading."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Forget what was counted: evaluation and checkpoints are not training."""
        self._n_images = 0
        self._wait_s = 0.0
        self._since = self._clock()

    def add(self, n_images: int, wait_s: float) -> None:
        self._n_images += n_images
        self._wait_s += wait_s

    def read(self) -> dict[str, float]:
        """The series, and a fresh start; nothing where nothing was counted."""
        elapsed_s = self._clock() - self._since
        n_images, wait_s = self._n_images, self._wait_s
        self.restart()
        if not n_images or elapsed_s <= 0:
            return {}
        return {"time/images_s": n_images / elapsed_s, "time/data_wait_pct": min(100.0, 100 * wait_s / elapsed_s)}
