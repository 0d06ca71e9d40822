"""LeCun et al.: Gradient-based learning applied to document recognition, Proc. IEEE 86 (1998), section II.B.

Needs nothing but PyTorch: a bundle takes this file along, so that the weights can be loaded without Fovea.
Of Fovea, under the Apache License 2.0.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn


class LeNet5(nn.Module):
    """Layers C1 to F6 of the paper; full connections in C3, average pooling and a linear output layer.

    C5 is the convolution it is in the paper: for images of more than 32 px it gives a map, which is averaged.
    """

    def __init__(self, n_classes: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 5),
            activation(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            activation(),
            nn.AvgPool2d(2),
            nn.Conv2d(16, 120, 5),
            activation(),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Sequential(nn.Linear(120, 84), activation())
        self.head = nn.Linear(84, n_classes)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        features_BD = self.pool(self.features(images_BCHW)).flatten(1)
        return cast(Tensor, self.head(self.hidden(features_BD)))


def lenet5(n_classes: int, activation: str = "relu") -> nn.Module:
    """For three channels, with fresh weights."""
    return LeNet5(n_classes, nn.Tanh if activation == "tanh" else nn.ReLU)
