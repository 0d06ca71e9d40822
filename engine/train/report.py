from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from engine.emit import Sink, Throttle, scalars
from engine.train.throughput import Throughput
from wire.events import Notice, Progress, SeriesInfo

_PROGRESS_INTERVAL_S = 0.25
_VALIDATING_INTERVAL_S = 5.0

log = logging.getLogger(__name__)


class Report:
    """Tells how the training goes: events for the browser, one line an epoch for the log."""

    def __init__(self, sink: Sink, metrics: Sequence[SeriesInfo], *, epochs: int, total_steps: int) -> None:
        self._sink = sink
        self._units = {info.name: info.unit for info in metrics}
        self._epochs = epochs
        self._total_steps = total_steps
        self._throttle = Throttle(_PROGRESS_INTERVAL_S)
        self._validating = Throttle(_VALIDATING_INTERVAL_S)
        self._throughput = Throughput()
        self._epoch_began_at = time.monotonic()

    def step(self, step: int, *, n_images: int, wait_s: float) -> None:
        self._throughput.add(n_images, wait_s)
        if self._throttle.open() or step == self._total_steps:
            self._sink.emit(Progress(stage="train", done=step, total=self._total_steps))

    def validating(self, step: int) -> None:
        """A sign of life: where the training stands, once more. Without it a long validation looks like a hang."""
        if self._validating.open():
            self._sink.emit(Progress(stage="train", done=step, total=self._total_steps))

    def window(self, step: int, values: Mapping[str, float], *, rate: float) -> None:
        """The means since the last such point."""
        named = {f"train/{name}": value for name, value in values.items()}
        self._sink.emit(scalars(step, {**named, "lr": rate, **self._throughput.read()}))

    def validated(self, step: int, values: Mapping[str, float]) -> None:
        if values:
            self._sink.emit(scalars(step, {f"val/{name}": value for name, value in values.items()}))

    def epoch(self, epoch: int, train: Mapping[str, float], val: Mapping[str, float], *, rate: float) -> None:
        took_s = time.monotonic() - self._epoch_began_at
        parts = [f"epoch {epoch:>{len(str(self._epochs))}}/{self._epochs}"]
        for split, values in (("train", train), ("val", val)):
            if values:
                parts.append(f"{split} " + " ".join(self._told(name, value) for name, value in values.items()))
        log.info("%s  lr %.2e  %.1f s", "  ".join(parts), rate, took_s)

    def ended_early(self, epoch: int, series: str, n_stale_epochs: int) -> None:
        text = (
            f"Ended early after epoch {epoch:,} of {self._epochs:,}: {series} has not improved for "
            f"{n_stale_epochs:,} epochs, as the option asks."
        )
        self._sink.emit(Notice(level="info", code="run.ended_early", text=text))
        log.info(text)

    def resumed(self) -> None:
        """Time since the last call belongs to something else: evaluation, or a checkpoint."""
        self._throughput.restart()

    def epoch_began(self) -> None:
        self._epoch_began_at = time.monotonic()
        self._throughput.restart()

    def _told(self, name: str, value: float) -> str:
        unit = self._units.get(name, "")
        return f"{name} {value:.2f} {unit}" if unit else f"{name} {value:.4f}"
