"""Liu et al.: A ConvNet for the 2020s, CVPR 2022 (arXiv 2201.03545)."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARD = ModelCard(
    name="convnext_tiny",
    label="ConvNeXt-Tiny",
    summary="A convolutional network with the habits of transformers; start it from published weights.",
    implementation="engine.models.convnext.model:CONVNEXT_TINY",
    family="ConvNeXt",
    year=2022,
    min_px=32,
    default_px=224,
    n_parameters=28_589_128,
    n_flops=8_911_062_528,
    code_licence="BSD-3-Clause (torchvision)",
    weights=(torchvision_weights("convnext_tiny-983f1562.pth", top1_pct=82.520),),
)
