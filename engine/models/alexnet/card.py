"""Krizhevsky: One weird trick for parallelizing convolutional neural networks, 2014 (arXiv 1404.5997)."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARD = ModelCard(
    name="alexnet",
    label="AlexNet",
    summary="Five convolutions and three large linear layers; the network that began it all.",
    implementation="engine.models.alexnet.model:ALEXNET",
    family="AlexNet",
    year=2014,
    min_px=63,
    default_px=224,
    n_parameters=61_100_840,
    n_flops=1_428_376_960,
    code_licence="BSD-3-Clause (torchvision)",
    weights=(torchvision_weights("alexnet-owt-7be5be79.pth", top1_pct=56.522),),
)
