"""What training wants to know of all pixels, gathered while images pass by once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.importing.checks import Looks
from wire.specs import Colour

Triple: TypeAlias = tuple[float, float, float]

_ROWS_AT_ONCE: Final = 65_536
_IS_GREY: Final = 6


class PixelStatistics:
    """Seven numbers an image are kept in a file, for which images are in the train split is only known at the end.

    Every image counts the same, however many pixels it has: training sees them all at one size.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)  # what waits in a buffer would meet a full disk when it is closed

    def add(self, looks: Sequence[Looks]) -> None:
        """Images come in the order of their ids, which count from 1."""
        rows_N7 = np.array([(*one.moments, one.is_grey) for one in looks], np.float64)
        self._file.write(rows_N7.tobytes())

    def summary(self, train_ids: Iterable[int], all_ids: Iterable[int]) -> tuple[Triple, Triple, Colour]:
        """Mean and deviation per channel over the train split (all, where it has none), and the colour of all."""
        self._file.close()
        moments_N7: NDArray[np.float64] = np.memmap(self._path, np.float64, "r").reshape(-1, 7)
        n_images, n_grey, mean_7 = _mean(moments_N7, all_ids)
        colour: Colour = "grey" if n_grey == n_images else "rgb"
        n_train, _, train_mean_7 = _mean(moments_N7, train_ids)
        mean_7 = train_mean_7 if n_train else mean_7
        variance_C = np.maximum(0, mean_7[3:6] - mean_7[:3] ** 2)
        return _triple(mean_7[:3]), _triple(np.sqrt(variance_C)), colour

    def close(self) -> None:
        self._file.close()


def _mean(moments_N7: NDArray[np.float64], ids: Iterable[int]) -> tuple[int, int, NDArray[np.float64]]:
    """How many images, how many of them are grey, and the mean of each column."""
    remaining = iter(ids)
    n_images = 0
    sum_7 = np.zeros(7)
    while len(chosen_N := np.fromiter(islice(remaining, _ROWS_AT_ONCE), np.int64)):
        n_images += len(chosen_N)
        sum_7 += moments_N7[chosen_N - 1].sum(axis=0)
    return n_images, round(sum_7[_IS_GREY]), sum_7 / max(1, n_images)


def _triple(values_C: NDArray[np.float64]) -> Triple:
    red, green, blue = (round(float(value), 6) for value in values_C)
    return red, green, blue
