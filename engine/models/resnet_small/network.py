"""He et al.: Deep residual learning for image recognition, CVPR 2016 (arXiv 1512.03385), section 4.2.

Needs nothing but PyTorch: a bundle takes this file along, so that the weights can be loaded without Fovea.
Of Fovea, under the Apache License 2.0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two 3x3 convolutions around which the input is added, figure 2 of the paper.

    Where the shape changes the shortcut takes every second pixel and adds channels of zeros (option A).
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.stride = 1 if n_in == n_out else 2
        self.n_new = n_out - n_in
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(n_out)

    def forward(self, maps_BCHW: Tensor) -> Tensor:
        residual_BCHW = F.relu(self.norm1(self.conv1(maps_BCHW)))
        residual_BCHW = self.norm2(self.conv2(residual_BCHW))
        shortcut_BCHW = maps_BCHW[:, :, :: self.stride, :: self.stride]
        if self.n_new:
            shortcut_BCHW = F.pad(shortcut_BCHW, (0, 0, 0, 0, self.n_new // 2, self.n_new - self.n_new // 2))
        return F.relu(shortcut_BCHW + residual_BCHW)


class SmallResNet(nn.Module):
    """The ResNet of 6n + 2 layers for small images: three stages of n blocks with 16, 32 and 64 channels."""

    def __init__(self, n_classes: int, n_blocks: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths = [16] * (n_blocks + 1) + [32] * n_blocks + [64] * n_blocks
        self.blocks = nn.Sequential(*[Block(n_in, n_out) for n_in, n_out in pairwise(widths)])
        self.head = nn.Linear(64, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images_BCHW: Tensor) -> Tensor:
        maps_BCHW = self.blocks(F.relu(self.norm(self.conv(images_BCHW))))
        return cast(Tensor, self.head(maps_BCHW.mean(dim=(2, 3))))


def resnet20(n_classes: int) -> nn.Module:
    """For three channels, with fresh weights."""
    return SmallResNet(n_classes, n_blocks=3)
