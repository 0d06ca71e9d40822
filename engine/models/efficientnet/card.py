"""Tan and Le: EfficientNet, ICML 2019 (arXiv 1905.11946)."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARD = ModelCard(
    name="efficientnet_b0",
    label="EfficientNet-B0",
    summary="Accurate for its size; trains slowly for its operations.",
    implementation="engine.models.efficientnet.model:EFFICIENTNET_B0",
    family="EfficientNet",
    year=2019,
    min_px=32,
    default_px=224,
    n_parameters=5_288_548,
    n_flops=771_629_504,
    code_licence="BSD-3-Clause (torchvision)",
    weights=(torchvision_weights("efficientnet_b0_rwightman-7f5810bc.pth", top1_pct=77.692),),
)
