"""How far a share, and the difference of two shares of the same images, may be off: intervals at 95 %."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from wire.exports import Interval

Z: Final = 1.959963984540054
"""Of the normal distribution, 2.5 % lie above."""
_N_HALVINGS: Final = 60


def wilson(n_right: int, n: int) -> Interval:
    """Of a share; also where none or all are right. ``n`` is at least 1.

    Source: Wilson, Probable inference, the law of succession, and statistical inference (1927).
    """
    share = n_right / n
    middle = share + Z**2 / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    scale = 1 + Z**2 / n
    return Interval(lower=max(0.0, (middle - half) / scale), upper=min(1.0, (middle + half) / scale))


def paired_change(n_gained: int, n_lost: int, n: int) -> Interval:
    """Of the change of a share where the same ``n`` things were judged twice: the score interval.

    It asks which changes the data do not contradict, so it has a width also where nothing changed in the sample, as is
    usual for an export.

    Source: Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design (1998), equations 4 to 6.

    Args:
        n_gained: right the second time alone.
        n_lost: right the first time alone.
        n: all, at least 1.
    """
    change = (n_gained - n_lost) / n

    def statistic(assumed: float) -> float:
        return paired_score(n_gained, n_lost, n, assumed)

    # The score falls as the assumed change grows, and is 0 at the change that was seen.
    return Interval(
        lower=_crossing(lambda assumed: statistic(assumed) > Z, -1.0, change),
        upper=_crossing(lambda assumed: statistic(assumed) >= -Z, change, 1.0),
    )


def paired_score(n_gained: int, n_lost: int, n: int, assumed: float) -> float:
    """How many standard deviations the seen change lies above the ``assumed`` one, were that the true one."""
    numerator = n_gained - n_lost - n * assumed
    if numerator == 0:
        return 0.0
    # The likeliest share of those lost, given the assumed change, solves a quadratic equation.
    a = 2 * n
    b = -n_gained - n_lost + (2 * n - n_gained + n_lost) * assumed
    c = -n_lost * assumed * (1 - assumed)
    share_lost = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share_lost + assumed * (1 - assumed))
    return numerator / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, numerator)


def _crossing(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Where ``is_below`` changes from true to false, or ``high`` where it is true everywhere."""
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        if is_below(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2
