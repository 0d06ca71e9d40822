"""Arrays as pictures: what the network sees, where it looked, and its layers as tiles."""

from __future__ import annotations

import io
import math
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

_HEAT: Final = np.array(
    [(0, 0, 4), (66, 10, 104), (147, 38, 103), (221, 81, 58), (252, 165, 10), (252, 255, 164)], np.float32
)
"""Six stops of matplotlib's ``inferno``: brighter is more, for colour-blind eyes too."""
_HEAT_WEIGHT: Final = 0.7
"""How much of the picture the hottest place hides."""
_LEAST_TILE_PX: Final = 24
_MOST_TILE_PX: Final = 64
_GAP_PX: Final = 2
_GAP_GREY: Final = 128


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def as_image(pixels_HWC: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(pixels_HWC.squeeze(axis=2) if pixels_HWC.shape[2] == 1 else pixels_HWC)


def overlaid(seen: Image.Image, heat_HW: NDArray[np.float32]) -> Image.Image:
    """The picture with its hot places in colour; where nothing is hot it stays as it is.

    Shapes:
        heat from 0 to 1, of any size.
    """
    stretched = Image.fromarray(heat_HW.astype(np.float32)).resize(seen.size, Image.Resampling.BILINEAR)
    share_HW1 = np.asarray(stretched).clip(0, 1)[:, :, None]
    stops = np.linspace(0, 1, len(_HEAT))
    colour_HWC = np.concatenate([np.interp(share_HW1, stops, _HEAT[:, channel]) for channel in range(3)], axis=2)
    weight_HW1 = share_HW1 * _HEAT_WEIGHT
    picture_HWC = np.asarray(seen.convert("RGB"), np.float32)
    return Image.fromarray((picture_HWC * (1 - weight_HW1) + colour_HWC * weight_HW1).round().astype(np.uint8))


def grid_of_tokens(tokens_BNC: Tensor) -> Tensor:
    """Patches of a transformer where they lie in the picture; a class token before them is left out.

    Shapes:
        N = H * W or 1 + H * W, H = W; returns (B, C, H, W).
    """
    n_images, n_tokens, n_channels = tokens_BNC.shape
    side = math.isqrt(n_tokens)
    return tokens_BNC[:, n_tokens - side**2 :].transpose(1, 2).reshape(n_images, n_channels, side, side)


def tiled(tiles_NHWC: NDArray[np.float32]) -> Image.Image:
    """As nearly a square of tiles as their number allows, each from its darkest to its brightest value.

    Shapes:
        (N, H, W, C), C = 1 or 3.
    """
    images = [_tile(tile_HWC) for tile_HWC in tiles_NHWC]
    width, height = images[0].size
    n_columns = math.ceil(math.sqrt(len(images) * height / width))
    n_rows = math.ceil(len(images) / n_columns)
    size = (n_columns * (width + _GAP_PX) - _GAP_PX, n_rows * (height + _GAP_PX) - _GAP_PX)
    sheet = Image.new("RGB", size, (_GAP_GREY, _GAP_GREY, _GAP_GREY))
    for position, image in enumerate(images):
        row, column = divmod(position, n_columns)
        sheet.paste(image, (column * (width + _GAP_PX), row * (height + _GAP_PX)))
    return sheet


def _tile(tile_HWC: NDArray[np.float32]) -> Image.Image:
    finite_HWC = np.nan_to_num(tile_HWC, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite_HWC.min()), float(finite_HWC.max())
    share_HWC = (finite_HWC - low) / (high - low) if high > low else np.zeros_like(finite_HWC)
    image = as_image(cast(NDArray[np.uint8], (share_HWC * 255).round().astype(np.uint8)))
    longest_px = max(image.size)
    if longest_px > _MOST_TILE_PX:
        scale = _MOST_TILE_PX / longest_px
        return image.resize(_scaled(image, scale), Image.Resampling.BOX)
    # By whole steps, so that every value is a square of the same size.
    scale = max(1, math.ceil(_LEAST_TILE_PX / longest_px))
    return image.resize(_scaled(image, scale), Image.Resampling.NEAREST)


def _scaled(image: Image.Image, scale: float) -> tuple[int, int]:
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))
