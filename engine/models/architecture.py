"""What a model's implementation is: how to build the network, and how its weights move to another head or input.

Loads torch; the cards beside it do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import torch
from pydantic import BaseModel
from torch import Tensor, nn

Rgb: TypeAlias = tuple[float, float, float]
State: TypeAlias = dict[str, Tensor]

IMAGENET_MEAN: Rgb = (0.485, 0.456, 0.406)
IMAGENET_STD: Rgb = (0.229, 0.224, 0.225)


class Build(Protocol):
    """Makes the network for three channels, with fresh weights drawn from torch's global generator."""

    def __call__(self, *, n_classes: int, image_px: int, options: BaseModel) -> nn.Module: ...


def _unchanged(state: State, network: nn.Module) -> State:
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One network; ``images_BCHW`` in, ``logits_BK`` out."""

    build_rgb: Build
    head_prefixes: tuple[str, ...]
    """State entries that depend on the classes; made anew when the classes change."""
    first_conv: str
    """Path of the convolution that sees the image."""
    dropped_prefixes: tuple[str, ...] = ()
    """Entries of published files that the network here does without."""
    fit: Callable[[State, nn.Module], State] = _unchanged
    """Bends a state to the network's image size, where entries depend on it."""
    published_mean: Rgb = IMAGENET_MEAN
    """What the published weights expect of their input."""
    published_std: Rgb = IMAGENET_STD

    def build(self, *, n_classes: int, in_channels: int, image_px: int, options: BaseModel) -> nn.Module:
        """The network for one or three channels.

        One channel is the network for three with the same grey in each: the first convolution's weights are summed.
        """
        network = self.build_rgb(n_classes=n_classes, image_px=image_px, options=options)
        if in_channels == 1:
            replace_first_conv(network, self.first_conv)
        return network


def torchvision_architecture(
    name: str,
    *,
    head: str,
    first_conv: str,
    settings: Mapping[str, Any] | None = None,
    dropped_prefixes: tuple[str, ...] = (),
    mean: Rgb = IMAGENET_MEAN,
    std: Rgb = IMAGENET_STD,
) -> Architecture:
    """A network of torchvision, which is imported when the network is built."""

    def build(*, n_classes: int, image_px: int, options: BaseModel) -> nn.Module:
        from torchvision.models import get_model

        return cast(nn.Module, get_model(name, weights=None, num_classes=n_classes, **(settings or {})))

    return Architecture(
        build_rgb=build,
        head_prefixes=(f"{head}.",),
        first_conv=first_conv,
        dropped_prefixes=dropped_prefixes,
        published_mean=mean,
        published_std=std,
    )


def replace_first_conv(network: nn.Module, path: str) -> None:
    """Put a convolution of one input channel where the one of three is."""
    parent_path, _, name = path.rpartition(".")
    parent = network.get_submodule(parent_path)
    rgb = getattr(parent, name)
    if not isinstance(rgb, nn.Conv2d):
        raise TypeError(f"{path} is a {type(rgb).__name__}, not a Conv2d")
    grey = nn.Conv2d(
        1,
        rgb.out_channels,
        cast(tuple[int, int], rgb.kernel_size),
        stride=cast(tuple[int, int], rgb.stride),
        padding=cast(tuple[int, int], rgb.padding),
        bias=rgb.bias is not None,
    )
    with torch.no_grad():
        grey.weight.copy_(rgb.weight.sum(dim=1, keepdim=True))
        if rgb.bias is not None and grey.bias is not None:
            grey.bias.copy_(rgb.bias)
    setattr(parent, name, grey)
