"""Random changes to training images, a whole batch at once, on the device where the batch is.

Every preset is one random affine map per image, resampled once, then colour and erased patches. Parameters are drawn on
the CPU in a fixed order, so a generator of equal seed gives equal batches, on a GPU too but for its rounding.

B images, C channels, H = W pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from wire.specs import Augmentation

Outside: TypeAlias = Literal["paper", "reflection"]


@dataclass(frozen=True, slots=True)
class _Preset:
    rotate_deg: float = 0.0
    scale: float = 0.0
    """Larger or smaller by up to this share."""
    shift: float = 0.0
    """Along each axis, by up to this share of the side."""
    crop_area: tuple[float, float] | None = None
    """Share of the picture that a random crop shows, at aspect ratios from 3:4 to 4:3."""
    flip: bool = False
    jitter: float = 0.0
    """Brightness, contrast and saturation change by up to this share."""
    erase_probability: float = 0.0
    outside: Outside = "reflection"
    """What comes into view from beyond the edge: the picture mirrored, or the paper it is drawn on."""


_CROP_AREA: Final = (0.35, 1.0)
_PRESETS: Final[dict[Augmentation, _Preset]] = {
    "none": _Preset(),
    "shift": _Preset(rotate_deg=10, scale=0.1, shift=0.1, outside="paper"),
    "flip": _Preset(shift=0.12, flip=True),
    "photo": _Preset(crop_area=_CROP_AREA, flip=True, jitter=0.3),
    "strong": _Preset(rotate_deg=20, crop_area=_CROP_AREA, flip=True, jitter=0.3, erase_probability=0.5),
}
_ASPECT: Final = (3 / 4, 4 / 3)
_ERASE_AREA: Final = (0.02, 0.2)
_ERASE_ASPECT: Final = (0.3, 3.3)
LUMA: Final = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey, ITU-R 601-2, the ones of Pillow."""
_N_QUESTIONS: Final = 14
"""As many random numbers as any preset asks for one image."""


class Augment:
    """A preset for one image size.

    Source: crop and aspect ranges follow C. Szegedy et al., "Going deeper with convolutions" (2015), section 6; erased
    patches Z. Zhong et al., "Random erasing data augmentation" (2017), algorithm 1, filled with the image's mean.
    """

    def __init__(self, preset: Augmentation, image_px: int) -> None:
        self._preset = _PRESETS[preset]
        self._image_px = image_px
        self.changes_nothing = preset == "none"

    def __call__(self, images_BCHW: Tensor, generator: Generator) -> Tensor:
        """New images, each changed by its own draw.

        Args:
            images_BCHW: values from 0 to 1; not changed.
            generator: on the CPU; its state alone decides what is drawn.

        Shapes:
            images_BCHW (B, C, H, W), H = W = ``image_px``, C = 1 or 3; returns the same.
        """
        if self.changes_nothing:
            return images_BCHW
        draw = _Draw(len(images_BCHW), generator, images_BCHW.device)
        images_BCHW = _resampled(images_BCHW, _affine(self._preset, draw), self._preset.outside)
        if self._preset.jitter:
            images_BCHW = _jittered(images_BCHW, self._preset.jitter, draw)
        if self._preset.erase_probability:
            images_BCHW = _erased(images_BCHW, self._preset.erase_probability, draw)
        return images_BCHW


class _Draw:
    """Random numbers for a batch, one per image and question; all are drawn at once and sent to the device at once.

    From pinned memory, so that a GPU goes on with its work: anything that it must be waited for here costs every step.
    """

    def __init__(self, n_images: int, generator: Generator, device: torch.device) -> None:
        uniform_KB = torch.rand(_N_QUESTIONS, n_images, generator=generator)
        if device.type == "cuda":
            uniform_KB = uniform_KB.pin_memory()
        self._left = iter(uniform_KB.to(device, non_blocking=True))

    def between(self, low: float, high: float) -> Tensor:
        uniform_B: Tensor = next(self._left)
        return uniform_B * (high - low) + low

    def around(self, reach: float) -> Tensor:
        return self.between(-reach, reach)

    def aspect(self, low: float, high: float) -> Tensor:
        """Log-uniform, so that wide is as likely as tall."""
        return self.between(math.log(low), math.log(high)).exp()

    def sign(self) -> Tensor:
        return torch.where(self.between(0, 1) < 0.5, -1.0, 1.0)


def _affine(preset: _Preset, draw: _Draw) -> Tensor:
    """Where each pixel of the new image looks in the old one; coordinates run from -1 to 1.

    Shapes:
        returns (B, 2, 3).
    """
    angle_B = torch.deg2rad(draw.around(preset.rotate_deg))
    if preset.crop_area:
        area_B, aspect_B = draw.between(*preset.crop_area), draw.aspect(*_ASPECT)
        # A crop wider or higher than the picture is cut to it, so what is left of the picture is always in view.
        width_B = (area_B * aspect_B).sqrt().clamp(max=1)
        height_B = (area_B / aspect_B).sqrt().clamp(max=1)
        x_B, y_B = draw.around(1.0) * (1 - width_B), draw.around(1.0) * (1 - height_B)
    else:
        width_B = height_B = 1 + draw.around(preset.scale)
        x_B, y_B = draw.around(2 * preset.shift), draw.around(2 * preset.shift)
    flip_B = draw.sign() if preset.flip else torch.ones_like(angle_B)
    cos_B, sin_B = angle_B.cos(), angle_B.sin()
    rows = (width_B * flip_B * cos_B, -height_B * sin_B, x_B, width_B * flip_B * sin_B, height_B * cos_B, y_B)
    return torch.stack(rows, dim=1).reshape(-1, 2, 3)


def _resampled(images_BCHW: Tensor, affine_B23: Tensor, outside: Outside) -> Tensor:
    grid_BHW2 = F.affine_grid(affine_B23, list(images_BCHW.shape), align_corners=False)
    if outside == "reflection":
        return F.grid_sample(images_BCHW, grid_BHW2, padding_mode="reflection", align_corners=False)
    # Digits and letters stand on paper, black or white: the most common value of the rim is taken for its colour.
    rim_BCN = torch.cat([images_BCHW[:, :, (0, -1), :].flatten(2), images_BCHW[:, :, :, (0, -1)].flatten(2)], dim=2)
    paper_BC11 = rim_BCN.median(dim=2).values[:, :, None, None]
    return F.grid_sample(images_BCHW - paper_BC11, grid_BHW2, padding_mode="zeros", align_corners=False) + paper_BC11


def _jittered(images_BCHW: Tensor, reach: float, draw: _Draw) -> Tensor:
    """Brightness, contrast, saturation, in this order; grey images have no saturation to change."""
    brightness_B111, contrast_B111, saturation_B111 = ((1 + draw.around(reach))[:, None, None, None] for _ in range(3))
    images_BCHW = (images_BCHW * brightness_B111).clamp(0, 1)
    mean_B111 = _luma(images_BCHW).mean(dim=(2, 3), keepdim=True)
    images_BCHW = torch.lerp(mean_B111, images_BCHW, contrast_B111).clamp(0, 1)
    if images_BCHW.shape[1] == 3:
        images_BCHW = torch.lerp(_luma(images_BCHW), images_BCHW, saturation_B111).clamp(0, 1)
    return images_BCHW


def _luma(images_BCHW: Tensor) -> Tensor:
    if images_BCHW.shape[1] == 1:
        return images_BCHW
    red_B1HW, green_B1HW, blue_B1HW = images_BCHW[:, 0:1], images_BCHW[:, 1:2], images_BCHW[:, 2:3]
    return LUMA[0] * red_B1HW + LUMA[1] * green_B1HW + LUMA[2] * blue_B1HW


def _erased(images_BCHW: Tensor, probability: float, draw: _Draw) -> Tensor:
    """A rectangle of some images becomes their mean colour, which normalisation turns into about zero."""
    area_B, aspect_B = draw.between(*_ERASE_AREA), draw.aspect(*_ERASE_ASPECT)
    width_B, height_B = (area_B * aspect_B).sqrt().clamp(max=1), (area_B / aspect_B).sqrt().clamp(max=1)
    left_B, top_B = draw.between(0, 1) * (1 - width_B), draw.between(0, 1) * (1 - height_B)
    chosen_B = draw.between(0, 1) < probability
    side = images_BCHW.shape[-1]
    place_N = (torch.arange(side, device=images_BCHW.device) + 0.5) / side
    columns_BW = (place_N >= left_B[:, None]) & (place_N < (left_B + width_B)[:, None])
    rows_BH = (place_N >= top_B[:, None]) & (place_N < (top_B + height_B)[:, None])
    patch_B1HW = (columns_BW[:, None, :] & rows_BH[:, :, None] & chosen_B[:, None, None])[:, None]
    mean_BC11 = images_BCHW.mean(dim=(2, 3), keepdim=True)
    return torch.where(patch_B1HW, mean_BC11, images_BCHW)
