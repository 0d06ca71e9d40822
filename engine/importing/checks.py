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
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.data.decode import ImageUnreadable, decode

Moments: TypeAlias = tuple[float, float, float, float, float, float]

SMALL_PX: Final = 64 * 64
"""Up to here pixels are summed up by NumPy, many images at once; above, Pillow's histogram is faster."""
ENOUGH_PX: Final = 256 * 256
"""So many pixels give a mean that is exact enough; of larger images about as many are taken, evenly."""
LARGE_PX: Final = 16_000_000
"""Above, an image takes so much memory that one at a time is enough."""

_SUMMED_AT_ONCE: Final = 32
"""Their pixels as floats stay in the processor's cache."""
_LEVELS: Final = np.arange(256) / 255


@dataclass(frozen=True, slots=True)
class Looks:
    """Of an image that was decoded in full."""

    width: int
    height: int
    is_grey: bool
    sha256: str
    """Of the encoded bytes."""
    moments: Moments
    """Mean and mean square of the pixels, each for red, green, blue, 0 to 1."""


@dataclass(frozen=True, slots=True)
class _Raw:
    index: int
    pixels: bytes
    sha256: str


Answer: TypeAlias = Looks | str
"""What an image looks like, or the reason why it is none: the end of a sentence about the file."""


def look_at(files: Sequence[bytes], *, on_large: Callable[[int], object] = lambda _: None) -> list[Answer]:
    """An answer for each file, in order; ``on_large`` hears of a file that takes much memory before it is decoded."""
    answers: list[Answer] = [""] * len(files)
    small: defaultdict[tuple[int, int, str], list[_Raw]] = defaultdict(list)
    for index, data in enumerate(files):
        try:
            image = decode(data, on_open=_Minding(index, on_large))
        except ImageUnreadable as error:
            answers[index] = str(error)
            continue
        except MemoryError:
            answers[index] = "there is not enough memory to decode it"
            continue
        sha256 = hashlib.sha256(data).hexdigest()
        if image.width * image.height <= SMALL_PX:
            small[image.width, image.height, image.mode].append(_Raw(index, image.tobytes(), sha256))
        else:
            answers[index] = _looks_of_one(image, sha256)
    for (width, height, mode), raws in small.items():
        for start in range(0, len(raws), _SUMMED_AT_ONCE):
            some = raws[start : start + _SUMMED_AT_ONCE]
            for raw, looks in zip(some, _looks_of_many(some, width, height, mode), strict=True):
                answers[raw.index] = looks
    return answers


@dataclass(frozen=True, slots=True)
class _Minding:
    index: int
    on_large: Callable[[int], object]

    def __call__(self, image: Image.Image) -> None:
        if image.width * image.height > LARGE_PX:
            self.on_large(self.index)


def _looks_of_many(raws: Sequence[_Raw], width: int, height: int, mode: str) -> list[Looks]:
    """Images of one size and mode. The sums are of whole numbers, so they are exact in any order."""
    n_pixels, n_channels = width * height, len(mode)
    pixels_NPC = np.frombuffer(b"".join(raw.pixels for raw in raws), np.uint8).reshape(-1, n_pixels, n_channels)
    values_NV = pixels_NPC.reshape(len(raws), -1).astype(np.float64)
    channel_of_VC = np.tile(np.eye(n_channels), (n_pixels, 1))
    sums_NC = values_NV @ channel_of_VC
    np.square(values_NV, out=values_NV)
    squares_NC = values_NV @ channel_of_VC
    moments_N6 = np.hstack(
        [
            np.broadcast_to(sums_NC / (255 * n_pixels), (len(raws), 3)),
            np.broadcast_to(squares_NC / (255**2 * n_pixels), (len(raws), 3)),
        ]
    )
    alike_N = (sums_NC == sums_NC[:, :1]).all(axis=1)
    return [
        Looks(width, height, bool(alike) and _is_one_channel(pixels_PC), raw.sha256, _moments(moments_6))
        for raw, pixels_PC, alike, moments_6 in zip(raws, pixels_NPC, alike_N, moments_N6, strict=True)
    ]


def _is_one_channel(pixels_PC: NDArray[np.uint8]) -> bool:
    return bool((pixels_PC == pixels_PC[:, :1]).all())


def _looks_of_one(image: Image.Image, sha256: str) -> Looks:
    # A histogram is counted by Pillow in C and gives sums without a float copy of the pixels.
    seen = _thinned(image)
    share_CV = np.array(seen.histogram()).reshape(-1, 256) / (seen.width * seen.height)
    moments_6 = np.concatenate([np.broadcast_to(share_CV @ levels, 3) for levels in (_LEVELS, _LEVELS**2)])
    return Looks(image.width, image.height, _is_grey(image, share_CV), sha256, _moments(moments_6))


def _thinned(image: Image.Image) -> Image.Image:
    """Every second, third ... pixel of a large image: its mean hardly changes, and counting takes time."""
    step = math.isqrt(max(0, image.width * image.height - 1) // ENOUGH_PX) + 1
    if step == 1:
        return image
    return image.resize((-(-image.width // step), -(-image.height // step)), Image.Resampling.NEAREST)


def _moments(moments_6: NDArray[np.float64]) -> Moments:
    a, b, c, d, e, f = moments_6.tolist()
    return a, b, c, d, e, f


def _is_grey(image: Image.Image, share_CV: NDArray[np.float64]) -> bool:
    """Whether the three channels are one and the same; equal histograms are the cheap first question."""
    if image.mode == "L":
        return True
    if not (share_CV == share_CV[0]).all():
        return False
    red, green, blue = (channel.tobytes() for channel in image.split())
    return red == green == blue
