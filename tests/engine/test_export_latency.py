"""Timing by a clock of the test's own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from engine.export.backends import BuildStopped
from engine.export.latency import FEWEST_RUNS, LEAST_RUNS, MOST_RUNS, measure


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Slow:
    """Takes a fixed time for each image, and 10 times that for its first answer."""

    device, n_threads = "a fake", 2
    notes: ClassVar[tuple[str, ...]] = ("Said by the runtime.",)

    def __init__(self, clock: Clock, image_s: float, *, most: int = 100) -> None:
        self.clock, self.image_s, self.most = clock, image_s, most
        self.shapes: list[tuple[int, ...]] = []
        self.is_closed = False
        clock.now_s += 0.25

    def probabilities(self, images_NHWC: np.ndarray) -> np.ndarray:
        if len(images_NHWC) > self.most:
            raise MemoryError
        self.clock.now_s += self.image_s * len(images_NHWC) * (1 if self.shapes else 10)
        self.shapes.append(images_NHWC.shape)
        assert images_NHWC.dtype == np.uint8
        return np.ones((len(images_NHWC), 2), np.float32)

    def close(self) -> None:
        self.is_closed = True


class Stop:
    """Asked for at the n-th look, or never."""

    def __init__(self, look: int | None = None) -> None:
        self.look = look
        self.n_looks = 0

    @property
    def asked(self) -> bool:
        self.n_looks += 1
        return self.n_looks == self.look


def _measured(image_s: float, stop: Stop | None = None, **limits):
    clock = Clock()
    runtimes: list[Slow] = []

    def load() -> Slow:
        runtimes.append(Slow(clock, image_s, **limits))
        return runtimes[-1]

    told = []
    try:
        done = measure(load, image_px=16, on_progress=lambda *n: told.append(n), stop=stop or Stop(), clock=clock)
    finally:
        (runtime,) = runtimes
        assert runtime.is_closed
    assert told[-1] == (3, 3)
    return done, runtime


def test_load_first_and_each_batch():
    done, runtime = _measured(0.02)
    speed = done.speed
    assert (speed.device, speed.threads, speed.image_px) == ("a fake", 2, 16)
    assert (speed.load_ms, speed.first_ms) == (pytest.approx(250), pytest.approx(200))
    assert [latency.batch for latency in speed.latencies] == [1, 8, 32]
    for latency in speed.latencies:
        assert latency.p50_ms == latency.p95_ms == latency.p99_ms == pytest.approx(20 * latency.batch)
        assert latency.images_per_s == pytest.approx(50)
    assert {shape[1:] for shape in runtime.shapes} == {(16, 16, 3)}
    assert done.notes == ("Said by the runtime.",)


def test_fast_models_run_often_slow_ones_less_and_very_slow_ones_a_few_times():
    fast, _ = _measured(1e-5)
    assert [latency.n_runs for latency in fast.speed.latencies] == [MOST_RUNS] * 3
    usual, _ = _measured(0.0103)
    assert [latency.n_runs for latency in usual.speed.latencies] == [292, 37, LEAST_RUNS]
    slow, _ = _measured(1.1)
    assert [latency.n_runs for latency in slow.speed.latencies] == [10, FEWEST_RUNS, FEWEST_RUNS]


def test_a_batch_for_which_memory_is_short_is_left_out_with_a_note():
    done, _ = _measured(0.02, most=8)
    assert [latency.batch for latency in done.speed.latencies] == [1, 8]
    assert done.notes[-1] == "Memory is too short to measure 32 images at once."


def test_other_faults_are_not_hidden(monkeypatch):
    def fail(*_):
        raise ValueError("no such input")

    monkeypatch.setattr(Slow, "probabilities", fail)
    with pytest.raises(ValueError, match="no such input"):
        _measured(0.02)


def test_it_stops_between_two_runs():
    stop = Stop(41)
    with pytest.raises(BuildStopped):
        _measured(0.02, stop)
    assert stop.n_looks == 41
