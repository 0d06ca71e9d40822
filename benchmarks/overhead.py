"""What telemetry, events and checkpoints cost a training: the real loop, with all three toggled every 50 steps.

One process, one network, one stream of batches: only the switch changes, so that a machine whose speed drifts drifts
under both. A block is 50 steps; its time is that of the loop without validation, but with the checkpoints that the
default rule writes. Blocks are paired with their neighbours; the overhead is the mean of the pairs' ratios, and its
upper bound the one-sided 95 % limit by Student's t.

    python -m benchmarks.overhead [--model lenet5] [--pairs 10]
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks.real_loop import RealLoop, context_in, import_digits, on_digits
from engine.data.loader import Batch
from engine.device import n_physical_cores
from engine.emit import Sink
from engine.stop import Stop
from engine.train.loop import Batches
from engine.train.shelf import Shelf, Snapshot
from engine.train.telemetry import Telemetry
from wire.events import Event

STEPS_PER_BLOCK = 50
WARM_UP_BLOCKS = 2
T_95_ONE_SIDED = {9: 1.833, 14: 1.761, 19: 1.729, 29: 1.699}


class Switch:
    """On or off for all that is measured; telemetry's thread lives while it is on."""

    def __init__(self, sink: Sink, step: Callable[[], int]) -> None:
        self.on = False
        self._sink = sink
        self._step = step
        self._telemetry: Telemetry | None = None

    def turn(self, *, on: bool) -> None:
        self.on = on
        if self._telemetry:
            self._telemetry.__exit__(None, None, None)
            self._telemetry = None
        if on:
            self._telemetry = Telemetry(self._sink, (), self._step).__enter__()


class SwitchedSink:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.switch: Switch | None = None

    @property
    def last_seq(self) -> int:
        return self._sink.last_seq

    def emit(self, event: Event) -> None:
        if self.switch and self.switch.on:
            self._sink.emit(event)

    def sync(self) -> None:
        self._sink.sync()


class SwitchedShelf(Shelf):
    """Follows the default rule while the switch is on."""

    def __init__(self, switch: Switch, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.switch = switch

    def due(self, step: int) -> bool:
        return self.switch.on and super().due(step)

    def epoch_end(self, snapshot: Snapshot, *, is_last: bool) -> None:
        if self.switch.on:
            super().epoch_end(snapshot, is_last=is_last)


class TimedBatches:
    """Hands on the batches of training, turns the switch every 50 of them, and takes the time of each block."""

    def __init__(self, batches: Batches, switch: Switch, stop: Stop, n_blocks: int) -> None:
        self._batches = batches
        self._switch = switch
        self._stop = stop
        self._n_blocks = n_blocks
        self._n_steps = 0
        self._began_at = 0.0
        self.validation_s = 0.0
        self.blocks_s: list[float] = []

    @property
    def n_batches(self) -> int:
        return self._batches.n_batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for batch in self._batches.epoch(epoch, start):
            if self._n_steps % STEPS_PER_BLOCK == 0:
                self._next_block()
            self._n_steps += 1
            yield batch

    def _next_block(self) -> None:
        now = time.perf_counter()
        if self._n_steps:
            self.blocks_s.append(now - self._began_at - self.validation_s)
        if is_over := len(self.blocks_s) >= self._n_blocks:
            self._stop.ask()
        self._switch.turn(on=len(self.blocks_s) % 2 == 1 and not is_over)
        self.validation_s = 0.0
        self._began_at = time.perf_counter()


class Timed(Protocol):
    validation_s: float


class TimedValidation:
    """Validation is the same with and without; its time is taken out."""

    def __init__(self, batches: Batches, timed: Timed) -> None:
        self._batches = batches
        self._timed = timed

    @property
    def n_batches(self) -> int:
        return self._batches.n_batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        began_at = time.perf_counter()
        yield from self._batches.epoch(epoch, start)
        self._timed.validation_s += time.perf_counter() - began_at


def measure(model: str, n_pairs: int) -> dict[str, Any]:
    torch.set_num_threads(n_physical_cores())
    with tempfile.TemporaryDirectory() as folder:
        import_digits(Path(folder) / "1")
        blocks_s = _train(Path(folder) / "2", model, n_pairs)[WARM_UP_BLOCKS:]
    ratios = [on / off for off, on in zip(blocks_s[0::2], blocks_s[1::2], strict=True)]
    mean = statistics.mean(ratios)
    bound = mean + T_95_ONE_SIDED[n_pairs - 1] * statistics.stdev(ratios) / math.sqrt(n_pairs)
    return {
        "model": model,
        "blocks": len(blocks_s),
        "steps_per_block": STEPS_PER_BLOCK,
        "step_ms_off": round(1000 * statistics.median(blocks_s[0::2]) / STEPS_PER_BLOCK, 2),
        "step_ms_on": round(1000 * statistics.median(blocks_s[1::2]) / STEPS_PER_BLOCK, 2),
        "overhead_pct": round(100 * (mean - 1), 2),
        "upper_95_pct": round(100 * (bound - 1), 2),
    }


def _train(folder: Path, model: str, n_pairs: int) -> list[float]:
    context = context_in(folder)
    sink = SwitchedSink(context.sink)
    loop = RealLoop(on_digits(model), context)
    sink.switch = switch = Switch(context.sink, lambda: loop.at.step)
    timed = TimedBatches(loop.batches, switch, context.stop, WARM_UP_BLOCKS + 2 * n_pairs)
    validation = TimedValidation(loop.validation, timed) if loop.validation else None
    loop.train(timed, validation, sink=sink, shelf=partial(SwitchedShelf, switch))
    return timed.blocks_s


def main() -> None:
    logging.disable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--pairs", type=int, default=10, choices=[n + 1 for n in T_95_ONE_SIDED])
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.model, arguments.pairs), indent=2))


if __name__ == "__main__":
    main()
