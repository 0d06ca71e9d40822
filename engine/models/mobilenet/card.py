"""Howard et al.: Searching for MobileNetV3, ICCV 2019 (arXiv 1905.02244)."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARD = ModelCard(
    name="mobilenet_v3_small",
    label="MobileNetV3-Small",
    summary="Few operations: for processors and phones.",
    implementation="engine.models.mobilenet.model:MOBILENET_V3_SMALL",
    family="MobileNet",
    year=2019,
    min_px=32,
    default_px=224,
    n_parameters=2_542_856,
    n_flops=113_020_800,
    code_licence="BSD-3-Clause (torchvision)",
    weights=(torchvision_weights("mobilenet_v3_small-047dcff4.pth", top1_pct=67.668),),
)
