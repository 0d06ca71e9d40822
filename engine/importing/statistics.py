"""What training wants to know of all pixels, gathered while images pass by once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.importing.checks import CheckedImage
from wire.specs import Colour

Triple: TypeAlias = tuple[float, float, float]


class PixelStatistics:
    """Six numbers an image are kept, for which images are in the train split is only known at the end.

    Every image counts the same, however many pixels it has: training sees them all at one size.
    """

    def __init__(self) -> None:
        self._moments = array("d")
        self._is_grey = True

    def add(self, image: CheckedImage) -> None:
        """Images come in the order of their ids, which count from 1."""
        self._moments.extend((*image.mean_C, *image.mean_square_C))
        self._is_grey &= image.is_grey

    @property
    def colour(self) -> Colour:
        return "grey" if self._is_grey else "rgb"

    def mean_std(self, ids: Iterable[int]) -> tuple[Triple, Triple]:
        """Per channel, over the images of these ids; over all where there are none."""
        moments_N6: NDArray[np.float64] = np.frombuffer(self._moments, np.float64).reshape(-1, 6)
        chosen_N = np.fromiter(ids, np.int64) - 1
        mean_6 = (moments_N6[chosen_N] if len(chosen_N) else moments_N6).mean(axis=0)
        variance_C = np.maximum(0, mean_6[3:] - mean_6[:3] ** 2)
        return _triple(mean_6[:3]), _triple(np.sqrt(variance_C))


def _triple(values_C: NDArray[np.float64]) -> Triple:
    red, green, blue = (round(float(value), 6) for value in values_C)
    return red, green, blue
