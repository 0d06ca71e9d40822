"""Any picture to a square of ``px`` pixels, by one filter everywhere.

The filter is Pillow's ``BILINEAR``: a triangle whose support grows with the reduction, so it does not alias. Cache,
preview, evaluation and exported networks use this one; a second filter would cost accuracy that nobody could explain.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wire.specs import Colour, Resize

PAD_VALUE: Final = 0
"""Black. DIGITS padded with noise, which made the same image differ from one run to the next."""


def resize(image: Image.Image, px: int, mode: Resize, colour: Colour) -> NDArray[np.uint8]:
    """The picture as the network will see it, before normalisation.

    - ``squash`` ignores the aspect ratio.
    - ``crop`` keeps it, the shorter side becomes ``px``, the longer one is cut on both ends.
    - ``fill`` keeps it, the longer side becomes ``px``, the rest is padded with black on both ends.
    - ``half_crop`` keeps it and reduces by the mean of the two reductions: half is cut, half is padded.

    Colour is converted before the size, so that a grey image gives the same values by both ways.

    Shapes:
        image of mode ``L`` or ``RGB``; returns (px, px, C), C = 3 for ``rgb`` and 1 for ``grey``.
    """
    if colour == "grey":
        image = image.convert("L")
    pixels_HWC = np.asarray(_square(image, px, mode)).reshape(px, px, -1)
    if colour == "rgb" and pixels_HWC.shape[2] == 1:
        return np.repeat(pixels_HWC, 3, axis=2)
    return pixels_HWC


def _square(image: Image.Image, px: int, mode: Resize) -> Image.Image:
    width, height = image.size
    if mode == "squash":
        return image.resize((px, px), Image.Resampling.BILINEAR)
    reduction = _reduction(width, height, mode) / px
    seen_width, seen_height = min(width, px * reduction), min(height, px * reduction)
    left, top = (width - seen_width) / 2, (height - seen_height) / 2
    inner_size = (max(1, round(seen_width / reduction)), max(1, round(seen_height / reduction)))
    inner = image.resize(inner_size, Image.Resampling.BILINEAR, box=(left, top, left + seen_width, top + seen_height))
    if inner_size == (px, px):
        return inner
    square = Image.new(image.mode, (px, px), PAD_VALUE)
    square.paste(inner, ((px - inner_size[0]) // 2, (px - inner_size[1]) // 2))
    return square


def _reduction(width: int, height: int, mode: Resize) -> float:
    """Pixels of the source along the side of the square."""
    if mode == "crop":
        return min(width, height)
    if mode == "fill":
        return max(width, height)
    return (width + height) / 2
