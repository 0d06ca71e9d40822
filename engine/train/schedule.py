"""The learning rate as a pure function of the step, so that a resumed run needs no state for it."""

from __future__ import annotations

import math
from collections.abc import Callable

from wire.specs import Schedule, TrainOptions

_ONE_CYCLE_START = 1 / 25


def learning_rate(options: TrainOptions, total_steps: int) -> Callable[[int], float]:
    """The rate of step ``step``, counted from 0."""
    n_warmup = round(total_steps * options.warmup_pct / 100)
    shape = _SHAPES[options.schedule]

    def at(step: int) -> float:
        return options.learning_rate * shape(step, n_warmup, total_steps)

    return at


def _cosine(step: int, n_warmup: int, total_steps: int) -> float:
    """Source: Loshchilov and Hutter, SGDR (2017), equation 5, one period; the last step is not quite zero."""
    if step < n_warmup:
        return (step + 1) / n_warmup
    return (1 + math.cos(math.pi * (step - n_warmup) / max(1, total_steps - n_warmup))) / 2


def _one_cycle(step: int, n_warmup: int, total_steps: int) -> float:
    """Source: Smith and Topin, Super-convergence (2018): linear from a 25th to the peak, then linear to zero."""
    if step < n_warmup:
        return _ONE_CYCLE_START + (1 - _ONE_CYCLE_START) * (step + 1) / n_warmup
    return 1 - (step - n_warmup) / max(1, total_steps - n_warmup)


def _step(step: int, n_warmup: int, total_steps: int) -> float:
    if step < n_warmup:
        return (step + 1) / n_warmup
    if step < total_steps * 0.5:
        return 1.0
    return 0.1 if step < total_steps * 0.75 else 0.01


_SHAPES: dict[Schedule, Callable[[int, int, int], float]] = {
    "cosine": _cosine,
    "one_cycle": _one_cycle,
    "step": _step,
}
