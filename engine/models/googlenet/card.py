"""Szegedy et al.: Going deeper with convolutions, CVPR 2015 (arXiv 1409.4842), with batch normalisation."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARD = ModelCard(
    name="googlenet",
    label="GoogLeNet",
    summary="Inception modules with batch normalisation; without the auxiliary heads of the paper.",
    implementation="engine.models.googlenet.model:GOOGLENET",
    family="GoogLeNet",
    year=2014,
    min_px=32,
    default_px=224,
    n_parameters=6_624_904,
    n_flops=2_996_752_384,
    code_licence="BSD-3-Clause (torchvision)",
    weights=(torchvision_weights("googlenet-1378be20.pth", top1_pct=69.778),),
)
