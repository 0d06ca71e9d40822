"""How fast an exported model answers: from loading to percentiles, on the device that the job holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.export.backends import Asked, BuildStopped, Runtime
from engine.faults import as_fovea_error
from wire.errors import OutOfMemory
from wire.exports import MEASURED_BATCHES, Latency, Speed

WARM_UP_RUNS: Final = 3
WARM_UP_S: Final = 0.3
LEAST_RUNS: Final = 30
BUDGET_S: Final = 3.0
"""For each batch size: runs go on until it is spent, at least ``LEAST_RUNS`` and at most ``MOST_RUNS`` of them."""
MOST_RUNS: Final = 300
PATIENCE_S: Final = 10.0
"""A model so slow that ``LEAST_RUNS`` take longer than this is measured with fewer, though with ``FEWEST_RUNS``."""
FEWEST_RUNS: Final = 5
_SEED: Final = 0

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Measured:
    speed: Speed
    notes: tuple[str, ...]
    """Sentences, also those of the runtime."""


def measure(
    load: Callable[[], Runtime],
    *,
    image_px: int,
    batches: Sequence[int] = MEASURED_BATCHES,
    on_progress: Callable[[int, int], None],
    stop: Asked,
    clock: Clock = time.perf_counter,
) -> Measured:
    """Load the model afresh and time it, with images of noise, squares of ``image_px``.

    The files are in the memory of the operating system, as they were just written or verified: what is called loading
    is not reading from a disk.

    Raises:
        BuildStopped: the stop was asked for.
    """
    began_at = clock()
    runtime = load()
    try:
        load_ms = 1000 * (clock() - began_at)
        noise_BHWC = np.random.default_rng(_SEED).integers(0, 256, (max(batches), image_px, image_px, 3), np.uint8)
        began_at = clock()
        runtime.probabilities(noise_BHWC[:1])
        first_ms = 1000 * (clock() - began_at)
        latencies, notes = [], list(runtime.notes)
        for done, batch in enumerate(batches):
            on_progress(done, len(batches))
            try:
                latencies.append(_latency(runtime, noise_BHWC[:batch], stop, clock))
            except Exception as error:
                if not isinstance(as_fovea_error(error), OutOfMemory) or not latencies:
                    raise
                notes.append(f"Memory is too short to measure {batch} images at once.")
                break
        on_progress(len(batches), len(batches))
        speed = Speed(
            device=runtime.device,
            threads=runtime.n_threads,
            image_px=image_px,
            load_ms=load_ms,
            first_ms=first_ms,
            latencies=tuple(latencies),
        )
        return Measured(speed, tuple(notes))
    finally:
        runtime.close()


def _latency(runtime: Runtime, images_BHWC: NDArray[np.uint8], stop: Asked, clock: Clock) -> Latency:
    for _ in _until(clock, stop, least=WARM_UP_RUNS, budget_s=WARM_UP_S, most=MOST_RUNS):
        runtime.probabilities(images_BHWC)
    took_s = []
    for _ in _until(clock, stop, least=LEAST_RUNS, budget_s=BUDGET_S, most=MOST_RUNS):
        began_at = clock()
        runtime.probabilities(images_BHWC)
        took_s.append(clock() - began_at)
    p50, p95, p99 = (1000 * float(value) for value in np.percentile(took_s, (50, 95, 99)))
    return Latency(
        batch=len(images_BHWC),
        n_runs=len(took_s),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        images_per_s=len(images_BHWC) * len(took_s) / sum(took_s),
    )


def _until(clock: Clock, stop: Asked, *, least: int, budget_s: float, most: int) -> Iterator[int]:
    """Counts runs until there are enough of them."""
    began_at = clock()
    for n_runs in range(most):
        spent_s = clock() - began_at
        if n_runs >= least and spent_s >= budget_s:
            return
        if n_runs >= min(least, FEWEST_RUNS) and spent_s >= PATIENCE_S:
            return
        if stop.asked:
            raise BuildStopped
        yield n_runs
