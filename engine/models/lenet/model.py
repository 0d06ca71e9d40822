from __future__ import annotations

from pydantic import BaseModel
from torch import nn

from engine.models.architecture import Architecture
from engine.models.lenet.card import LeNetOptions
from engine.models.lenet.network import lenet5


def _build(*, n_classes: int, image_px: int, options: BaseModel) -> nn.Module:
    return lenet5(n_classes, LeNetOptions.model_validate(options.model_dump()).activation)


LENET5 = Architecture(build_rgb=_build, head_prefixes=("head.",), first_conv="features.0")
