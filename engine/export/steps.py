"""The steps of an export as they are told, and the look at the stop between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, TypeAlias

from engine.emit import Sink, Throttle
from engine.export.backends import Asked, BuildStopped
from wire.events import Progress

Stage: TypeAlias = Literal["prepare", "calibrate", "convert", "repair", "build", "verify", "measure", "store"]

_PROGRESS_INTERVAL_S: Final = 0.25


class Steps:
    """Of one export."""

    def __init__(self, sink: Sink, stop: Asked) -> None:
        self._sink = sink
        self.stop = stop
        self._stage: Stage | None = None
        self._throttle = Throttle(_PROGRESS_INTERVAL_S)

    def begin(self, stage: Stage) -> None:
        """Raises: BuildStopped: the stop was asked for."""
        self.check()
        self.tell(stage, 0, 0)

    def tell(self, stage: Stage, done: int, total: int) -> None:
        """Progress, of one stage not more often than a page can show."""
        if stage == self._stage and done != total and not self._throttle.open():
            return
        self._stage = stage
        self._sink.emit(Progress(stage=stage, done=done, total=total))

    def progress(self, stage: Stage) -> Callable[[int, int], None]:
        """``tell`` of one stage, for what counts by itself."""
        return partial(self.tell, stage)

    def check(self) -> None:
        """Raises: BuildStopped: the stop was asked for."""
        if self.stop.asked:
            raise BuildStopped
