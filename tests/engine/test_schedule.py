from __future__ import annotations

import itertools

import pytest

from engine.train.schedule import learning_rate
from wire.specs import Schedule, TrainOptions

TOTAL = 200


def _rates(schedule: Schedule, *, total: int = TOTAL, warmup_pct: float = 10.0) -> list[float]:
    at = learning_rate(TrainOptions(schedule=schedule, learning_rate=0.5, warmup_pct=warmup_pct), total)
    return [at(step) for step in range(total)]


@pytest.mark.parametrize("schedule", ["cosine", "one_cycle", "step"])
@pytest.mark.parametrize("warmup_pct", [0, 5, 50])
def test_it_rises_to_the_peak_and_never_again(schedule, warmup_pct):
    rates = _rates(schedule, warmup_pct=warmup_pct)
    peak = rates.index(max(rates))
    assert max(rates) == pytest.approx(0.5)
    assert peak <= TOTAL * warmup_pct / 100
    assert all(a < b for a, b in itertools.pairwise(rates[: peak + 1]))
    assert all(a >= b for a, b in itertools.pairwise(rates[peak:]))
    assert min(rates) > 0


def test_cosine_is_half_way_down_in_the_middle():
    rates = _rates("cosine", warmup_pct=0)
    assert rates[0] == 0.5
    assert rates[100] == pytest.approx(0.25)
    assert rates[-1] < 0.5 / 1000


def test_one_cycle_is_two_straight_lines():
    rates = _rates("one_cycle", warmup_pct=30)
    rise = [b - a for a, b in itertools.pairwise(rates[:60])]
    fall = [b - a for a, b in itertools.pairwise(rates[60:])]
    assert rise == pytest.approx([0.5 * 0.96 / 60] * 59)
    assert fall == pytest.approx([-0.5 / 140] * 139)


def test_step_is_a_tenth_at_half_and_a_hundredth_at_three_quarters():
    rates = _rates("step")
    assert [rates[at] for at in (99, 100, 149, 150, 199)] == pytest.approx([0.5, 0.05, 0.05, 0.005, 0.005])


@pytest.mark.parametrize("schedule", ["cosine", "one_cycle", "step"])
@pytest.mark.parametrize("warmup_pct", [0, 5, 50])
@pytest.mark.parametrize("total", [1, 2, 3])
def test_the_shortest_training_has_a_rate_too(schedule, warmup_pct, total):
    assert all(0 < rate <= 0.5 for rate in _rates(schedule, total=total, warmup_pct=warmup_pct))
