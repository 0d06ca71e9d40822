"""The layers of an INT8 network that hurt most, put back to float until it holds.

1. Each layer alone is made INT8, all others float, and shown a few images; how far the logits move is what it hurts.
   Of more than ``MOST_PROBES`` layers, neighbours are first tried together, and only the worst of these groups are
   opened; layers of the others come last.
2. The worst 1, 2, 4, 8, ... layers are float, until the judge says that the model holds.
3. Between that number and the one before it, the least that holds is sought by halves.

Cost for ``n`` layers: at most ``MOST_PROBES`` models with few INT8 layers, each shown the probe images, and about
``2 log2(n) + 2`` whole ones, each shown to the judge (ResNet-50's 54 layers: 54 and at most 14).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from engine.export.backends import Asked, BuildStopped
from engine.export.quantise import Ranges, layers_of, named, open_quietly, quantised
from wire.exports import KeptLayer

MOST_PROBES: Final = 60

_Probed = TypeVar("_Probed")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a network may be exported."""

    holds: bool
    says: str
    """For the log: ``accuracy -3.2 points, agreement 91 %``."""


@dataclass(frozen=True, slots=True)
class Hurt:
    """What rounding some layers does to the answers."""

    noise: float
    """Power of the change of the logits by the logits' own, both without what all classes share: soft-max is blind to
    that. Infinite where an answer is not a number."""
    agreement: float
    """Images with the same first answer."""


Progress = Callable[[int, int], None]
"""Models built so far, and how many there may be at most."""


def repaired(
    network: ModelProto,
    ranges: Ranges,
    asked_keep: Collection[str],
    judge: Callable[[ModelProto], Judged],
    probe_batches: Iterable[NDArray[np.float32]],
    on_progress: Progress,
    stop: Asked,
) -> tuple[ModelProto, tuple[KeptLayer, ...]]:
    """The INT8 network with as few layers in float as it takes, worst first.

    What holds with some layers in float nearly always holds with more; where it does not, the number found is one that
    holds and not surely the least.

    Args:
        network: of ``network_model``, in fp32.
        ranges: of ``find_ranges``.
        asked_keep: layers that are float in any case, as ``engine.export.quantise.named`` takes them.
        judge: asked about each whole model.
        probe_batches: normalised pixels (batch, C, px, px); a few dozen images do. Read only if the first model fails.
        on_progress: told after each model.
        stop: looked at before each model.

    Returns:
        The model and its layers in float: those asked for, then those put back in that order. Where not even the float
        network holds, all of them are there.

    Raises:
        SpecInvalid: ``asked_keep`` names no layer.
        BuildStopped: the stop was asked for.
    """
    layers = layers_of(network)
    asked = named(layers, asked_keep)
    kept = [KeptLayer(name=name, why="asked") for name in asked]
    free = [layer for layer in layers if layer not in set(asked)]
    steps = _Steps(on_progress, stop, n_most=1 + min(len(free), MOST_PROBES) + _n_whole(len(free)))
    build = _Builder(network, ranges, asked, judge, steps)
    if build.holds(()) or not free:
        return build.last, tuple(kept)
    log.info("Looking for the layers that hurt most among %d.", len(free))
    hurts = _Prober(network, ranges, list(probe_batches), steps).worst_first(free)
    n_put_back = _least(len(free), lambda n: build.holds([name for name, _ in hurts[:n]]))
    put_back = [
        KeptLayer(name=name, why="hurt", agreement=hurt.agreement if hurt else None)
        for name, hurt in hurts[:n_put_back]
    ]
    if n_put_back == len(free):
        log.info("All layers are back in float: INT8 is nothing for this network and these images.")
    else:
        log.info("Back in float: %s.", ", ".join(layer.name for layer in put_back))
    return build.holding, (*kept, *put_back)


def _n_whole(n_free: int) -> int:
    """How many whole models ``_least`` may ask for: up by doubling, then back by halves."""
    doublings = math.ceil(math.log2(n_free)) if n_free > 1 else 0
    return 2 * doublings + 1


def _least(n_most: int, holds: Callable[[int], bool]) -> int:
    """The least number from 1 to ``n_most`` that holds, or ``n_most`` where none does; 0 is known not to."""
    failing, n = 0, 1
    while not holds(n):
        if n == n_most:
            return n
        failing, n = n, min(2 * n, n_most)
    while n - failing > 1:
        middle = (failing + n) // 2
        if holds(middle):
            n = middle
        else:
            failing = middle
    return n


class _Steps:
    """Counts the models, tells of them and stops between them."""

    def __init__(self, on_progress: Progress, stop: Asked, *, n_most: int) -> None:
        self._on_progress = on_progress
        self._stop = stop
        self._n_done = 0
        self._n_most = n_most

    def check(self) -> None:
        if self._stop.asked:
            raise BuildStopped

    def done(self) -> None:
        self._n_done += 1
        self._on_progress(self._n_done, self._n_most)


class _Builder:
    """Whole models, judged; of those that held, the latest is remembered."""

    def __init__(
        self,
        network: ModelProto,
        ranges: Ranges,
        asked: Sequence[str],
        judge: Callable[[ModelProto], Judged],
        steps: _Steps,
    ) -> None:
        self._network, self._ranges, self._asked, self._judge, self._steps = network, ranges, asked, judge, steps
        self.last = network
        self._holding: ModelProto | None = None

    @property
    def holding(self) -> ModelProto:
        return self.last if self._holding is None else self._holding

    def holds(self, put_back: Sequence[str]) -> bool:
        self._steps.check()
        self.last = quantised(self._network, self._ranges, [*self._asked, *put_back])
        judged = self._judge(self.last)
        if judged.holds:
            self._holding = self.last
        log.info(
            "INT8 with %d layers in float %s: %s.",
            len(self._asked) + len(put_back),
            "holds" if judged.holds else "does not hold",
            judged.says,
        )
        self._steps.done()
        return judged.holds


class _Prober:
    """Shows the probe images to the network with some layers rounded."""

    def __init__(
        self, network: ModelProto, ranges: Ranges, probe_batches: Sequence[NDArray[np.float32]], steps: _Steps
    ) -> None:
        self._network, self._ranges, self._probes, self._steps = network, ranges, probe_batches, steps
        self._layers = layers_of(network)
        self._reference_NK = self._logits(network)

    def worst_first(self, free: Sequence[str]) -> Sequence[tuple[str, Hurt | None]]:
        """All of ``free``; without a measure those that were only tried together with others."""
        if len(free) <= MOST_PROBES:
            return _sorted([(layer, self._hurt([layer])) for layer in free])
        groups = _groups(free)
        n_left = MOST_PROBES - len(groups)
        opened: list[tuple[str, Hurt]] = []
        closed: list[tuple[str, None]] = []
        for members, _ in _sorted([(group, self._hurt(group)) for group in groups]):
            if not closed and len(members) <= n_left:
                n_left -= len(members)
                opened += [(layer, self._hurt([layer])) for layer in members]
            else:
                closed += [(layer, None) for layer in members]
        return [*_sorted(opened), *closed]

    def _hurt(self, rounded: Collection[str]) -> Hurt:
        self._steps.check()
        others = [layer for layer in self._layers if layer not in set(rounded)]
        hurt = _compared(self._reference_NK, self._logits(quantised(self._network, self._ranges, others)))
        self._steps.done()
        return hurt

    def _logits(self, model: ModelProto) -> NDArray[np.float32]:
        session = open_quietly(model)
        return np.concatenate([session.run(["logits"], {"pixels": pixels_BCHW})[0] for pixels_BCHW in self._probes])


def _compared(reference_NK: NDArray[np.float32], logits_NK: NDArray[np.float32]) -> Hurt:
    if not np.isfinite(logits_NK).all():
        return Hurt(noise=math.inf, agreement=float((reference_NK.argmax(1) == logits_NK.argmax(1)).mean()))
    centred_NK, other_NK = (each - each.mean(1, keepdims=True) for each in (reference_NK, logits_NK))
    power = float(np.square(centred_NK).sum()) or 1.0
    return Hurt(
        noise=float(np.square(other_NK - centred_NK).sum()) / power,
        agreement=float((reference_NK.argmax(1) == logits_NK.argmax(1)).mean()),
    )


def _sorted(hurts: Sequence[tuple[_Probed, Hurt]]) -> list[tuple[_Probed, Hurt]]:
    """Worst first; of equals the one that works earlier."""
    return sorted(hurts, key=lambda each: -each[1].noise)


def _groups(layers: Sequence[str]) -> list[Sequence[str]]:
    """Neighbours in the order of the work, so many together that half of the probes do for all."""
    n_together = math.ceil(len(layers) / (MOST_PROBES // 2))
    return [layers[first : first + n_together] for first in range(0, len(layers), n_together)]
