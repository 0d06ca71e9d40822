"""Bytes of pixels to what a network is shown: the one place where images are normalised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from engine.data.augment import LUMA

_LEAST_STD: Final = 1e-3
"""For images that are all of one value, whose deviation is 0."""


class Normalise:
    """Subtracts the mean and divides by the deviation, channel by channel.

    Args:
        mean: of the red, green and blue channel, 0 to 1.
        std: likewise; for grey images the three are weighed as the conversion to grey does.
        n_channels: of the images, 1 or 3.
        device: where the images will be.
        channels_last: the order in memory of what comes out.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        n_channels: int,
        device: torch.device,
        *,
        channels_last: bool = True,
    ) -> None:
        self.mean_C = channel_values(mean, n_channels)
        self.std_C = [max(value, _LEAST_STD) for value in channel_values(std, n_channels)]
        self._mean_C11 = torch.tensor(self.mean_C, device=device)[:, None, None]
        self._std_C11 = torch.tensor(self.std_C, device=device)[:, None, None]
        self._memory_format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, images_BCHW: Tensor) -> Tensor:
        """Of values from 0 to 1, as ``unit`` gives them."""
        images_BCHW = (images_BCHW - self._mean_C11) / self._std_C11
        return images_BCHW.contiguous(memory_format=self._memory_format)


def unit(images_BHWC: Tensor) -> Tensor:
    """Bytes as float32 from 0 to 1, channels first."""
    return images_BHWC.permute(0, 3, 1, 2).float() / 255


def channel_values(rgb: Sequence[float], n_channels: int) -> list[float]:
    """A statistic of the three colours for images of 3 channels or of 1."""
    if n_channels == 3:
        return list(rgb)
    return [sum(weight * value for weight, value in zip(LUMA, rgb, strict=True))]
