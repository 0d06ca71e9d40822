"""The mean of the training images as a picture: what is the same in all of them shows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.data.ahead import N_DECODE_THREADS, map_ahead
from engine.data.decode import decode

MAX_PX: Final = 128
MAX_IMAGES: Final = 200
"""More of them move the mean by a few grey levels at most."""
_DECODED_PX: Final = 96
"""A little less than shown: a JPEG of 500 px then comes out at a quarter of its size, which is faster than at half."""


def write_mean_image(path: Path, images: Iterable[bytes], *, width_px: int, height_px: int) -> None:
    """Squash the images to this shape, at most ``MAX_PX`` on its longer side, and write their mean as PNG."""
    scale = min(1.0, MAX_PX / max(width_px, height_px))
    size = max(1, round(width_px * scale)), max(1, round(height_px * scale))
    sum_HWC: NDArray[np.float64] = np.zeros((size[1], size[0], 3))
    n_images = 0
    squashed = map_ahead(partial(_squashed, size), images, n_threads=N_DECODE_THREADS, n_ahead=2 * N_DECODE_THREADS)
    with closing(squashed):
        for image_HWC in squashed:
            sum_HWC += image_HWC
            n_images += 1
    mean_HWC = np.rint(sum_HWC / max(1, n_images)).astype(np.uint8)
    Image.fromarray(mean_HWC).save(path, "PNG")


def _squashed(size: tuple[int, int], data: bytes) -> NDArray[np.uint8]:
    image = decode(data, at_least_px=_DECODED_PX).resize(size, Image.Resampling.BOX)
    return np.asarray(image.convert("RGB"))
