"""He et al.: Deep residual learning for image recognition, CVPR 2016 (arXiv 1512.03385)."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARDS = (
    ModelCard(
        name="resnet18",
        label="ResNet-18",
        summary="A solid first choice for photographs.",
        implementation="engine.models.resnet.model:RESNET18",
        family="ResNet",
        year=2015,
        min_px=32,
        default_px=224,
        n_parameters=11_689_512,
        n_flops=3_628_146_688,
        code_licence="BSD-3-Clause (torchvision)",
        weights=(torchvision_weights("resnet18-f37072fd.pth", top1_pct=69.758),),
    ),
    ModelCard(
        name="resnet50",
        label="ResNet-50",
        summary="The common yardstick; bottleneck blocks, 50 layers.",
        implementation="engine.models.resnet.model:RESNET50",
        family="ResNet",
        year=2015,
        min_px=32,
        default_px=224,
        n_parameters=25_557_032,
        n_flops=8_178_368_512,
        code_licence="BSD-3-Clause (torchvision)",
        weights=(
            torchvision_weights("resnet50-0676ba61.pth", top1_pct=76.130),
            torchvision_weights("resnet50-11ad3fa6.pth", top1_pct=80.858, version=2),
        ),
    ),
)
