"""Opening files: are they images that training can read, and what do they look like.

Runs in worker processes, and for a small import in the engine's own; either way batch by batch, because the pixels of
many small images are summed up together far faster than one by one.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from PIL import Image

from engine.data.decode import ImageUnreadable, decode

Moments: TypeAlias = tuple[float, float, float, float, float, float]

ENOUGH_PX: Final = 64 * 64
"""So many pixels give a mean that is exact enough; of larger images about as many are taken, evenly."""
LARGE_PX: Final = 16_000_000
"""Above, an image takes so much memory that one at a time is enough."""

_SUMMED_AT_ONCE: Final = 32
"""Their pixels as floats stay in the processor's cache."""
_COMPARED_AT_ONCE: Final = 2**20
"""Pixels."""


class Looks(NamedTuple):
    """Of an image that was decoded in full."""

    width: int
    height: int
    is_grey: bool
    sha256: str
    """Of the encoded bytes."""
    moments: Moments
    """Mean and mean square of the pixels, each for red, green, blue, 0 to 1."""


class _Seen(NamedTuple):
    position: int
    about: tuple[int, int, bool, str]
    """As ``Looks`` begins: width, height, whether it is grey, hash."""
    pixels: bytes


Answer: TypeAlias = Looks | str
"""What an image looks like, or the reason why it is none: the end of a sentence about the file."""


def look_at(files: Sequence[bytes], *, on_large: Callable[[int], object] = lambda _: None) -> list[Answer]:
    """An answer for each file, in order; ``on_large`` hears of a file that takes much memory before it is decoded."""
    answers: list[Answer] = [""] * len(files)
    alike: defaultdict[tuple[int, int], list[_Seen]] = defaultdict(list)
    for index, data in enumerate(files):
        try:
            image = decode(data, on_open=_Minding(index, on_large))
        except ImageUnreadable as error:
            answers[index] = str(error)
            continue
        except MemoryError:
            answers[index] = "there is not enough memory to decode it"
            continue
        pixels = _thinned(image).tobytes()
        about = image.width, image.height, _is_grey(image, pixels), hashlib.sha256(data).hexdigest()
        alike[len(pixels), len(image.mode)].append(_Seen(index, about, pixels))
    for (_, n_channels), all_seen in alike.items():
        for start in range(0, len(all_seen), _SUMMED_AT_ONCE):
            some = all_seen[start : start + _SUMMED_AT_ONCE]
            for seen, moments in zip(some, _moments([one.pixels for one in some], n_channels), strict=True):
                answers[seen.position] = Looks(*seen.about, moments)
    return answers


@dataclass(frozen=True, slots=True)
class _Minding:
    index: int
    on_large: Callable[[int], object]

    def __call__(self, image: Image.Image) -> None:
        if image.width * image.height > LARGE_PX:
            self.on_large(self.index)


def _moments(pixels: Sequence[bytes], n_channels: int) -> list[Moments]:
    """Of images with equally many pixels. The sums are of whole numbers, so they are exact in any order."""
    values_NV = np.frombuffer(b"".join(pixels), np.uint8).reshape(len(pixels), -1).astype(np.float64)
    n_pixels = values_NV.shape[1] // n_channels
    channel_of_VC = np.tile(np.eye(n_channels), (n_pixels, 1))
    sums_NC = values_NV @ channel_of_VC
    np.square(values_NV, out=values_NV)
    squares_NC = values_NV @ channel_of_VC
    shape = len(pixels), 3
    means_NC = np.broadcast_to(sums_NC / (255 * n_pixels), shape)
    mean_squares_NC = np.broadcast_to(squares_NC / (255**2 * n_pixels), shape)
    return list(map(tuple, np.hstack([means_NC, mean_squares_NC]).tolist()))


def _thinned(image: Image.Image) -> Image.Image:
    """Every second, third ... pixel of a large image: its mean hardly changes, and counting takes time."""
    step = math.isqrt(max(0, image.width * image.height - 1) // ENOUGH_PX) + 1
    if step == 1:
        return image
    return image.resize((-(-image.width // step), -(-image.height // step)), Image.Resampling.NEAREST)


def _is_grey(image: Image.Image, thinned: bytes) -> bool:
    """Whether the three channels are one and the same; some of the pixels are asked first, and mostly say no."""
    if image.mode == "L":
        return True
    if not _is_one_channel(thinned):
        return False
    rows = max(1, _COMPARED_AT_ONCE // image.width)
    strips = (image.crop((0, top, image.width, min(image.height, top + rows))) for top in range(0, image.height, rows))
    return all(_is_one_channel(strip.tobytes()) for strip in strips)


def _is_one_channel(pixels: bytes) -> bool:
    return pixels[::3] == pixels[1::3] == pixels[2::3]
