from __future__ import annotations

from pydantic import BaseModel
from torch import nn

from engine.models.architecture import Architecture
from engine.models.resnet_small.network import resnet20


def _build(*, n_classes: int, image_px: int, options: BaseModel) -> nn.Module:
    return resnet20(n_classes)


RESNET20 = Architecture(build_rgb=_build, head_prefixes=("head.",), first_conv="conv")
