"""Intervals against published examples and against their definition, worked out slowly."""

from __future__ import annotations

import math

import pytest

from engine.export.intervals import Z, paired_change, wilson


@pytest.mark.parametrize(
    ("n_right", "n", "lower", "upper"),
    # Newcombe, Two-sided confidence intervals for the single proportion (1998), table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_published(n_right, n, lower, upper):
    interval = wilson(n_right, n)
    assert (interval.lower, interval.upper) == (pytest.approx(lower, abs=5e-5), pytest.approx(upper, abs=5e-5))


def test_wilson_is_symmetric_and_stays_between_0_and_1():
    low, high = wilson(0, 7), wilson(7, 7)
    assert (low.lower, low.upper) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1 - high.lower))
    assert high.upper == pytest.approx(1.0)


def test_a_paired_change_as_published():
    # Airway hyper-responsiveness before and after a transplant: Fagerland, Lydersen and Laake, Recommended tests and
    # confidence intervals for paired binomial proportions (2014), Tango's interval.
    interval = paired_change(1, 7, 21)
    assert (interval.lower, interval.upper) == (pytest.approx(-0.517, abs=5e-4), pytest.approx(-0.026, abs=5e-4))


def _slow_score(n_gained: int, n_lost: int, n: int, assumed: float) -> float:
    """With the likeliest share of those lost searched for, instead of solved for."""
    low, high = max(0.0, -assumed), (1 - assumed) / 2

    def likelihood(share_lost: float) -> float:
        shares = (share_lost + assumed, share_lost, 1 - 2 * share_lost - assumed)
        counts = (n_gained, n_lost, n - n_gained - n_lost)
        return sum(count * math.log(share) for count, share in zip(counts, shares, strict=True) if count)

    for _ in range(200):
        third = (high - low) / 3
        if likelihood(low + third) < likelihood(high - third):
            low += third
        else:
            high -= third
    return (n_gained - n_lost - n * assumed) / math.sqrt(n * (2 * low + assumed - assumed**2))


@pytest.mark.parametrize(("n_gained", "n_lost", "n"), [(16, 9, 86), (3, 11, 200), (1, 2, 1000), (40, 0, 100)])
def test_the_ends_of_a_paired_change_are_as_far_from_what_was_seen_as_they_should_be(n_gained, n_lost, n):
    interval = paired_change(n_gained, n_lost, n)
    assert interval.lower < (n_gained - n_lost) / n < interval.upper
    assert _slow_score(n_gained, n_lost, n, interval.lower) == pytest.approx(Z, rel=1e-4)
    assert _slow_score(n_gained, n_lost, n, interval.upper) == pytest.approx(-Z, rel=1e-4)


def test_where_nothing_changed_the_interval_has_a_width_that_shrinks():
    of_200, of_1000 = paired_change(0, 0, 200), paired_change(0, 0, 1000)
    assert of_200.upper == pytest.approx(-of_200.lower)
    assert of_200.upper == pytest.approx(Z**2 / (200 + Z**2))
    assert of_1000.upper < of_200.upper / 4


def test_the_other_way_round_a_paired_change_is_mirrored():
    there, back = paired_change(9, 2, 50), paired_change(2, 9, 50)
    assert (there.lower, there.upper) == (pytest.approx(-back.upper), pytest.approx(-back.lower))


@pytest.mark.parametrize(("n_gained", "n_lost"), [(1, 0), (0, 1), (0, 0)])
def test_of_one_image_little_is_known(n_gained, n_lost):
    interval = paired_change(n_gained, n_lost, 1)
    assert -1 <= interval.lower <= n_gained - n_lost <= interval.upper <= 1
    assert interval.upper - interval.lower > 1.5
