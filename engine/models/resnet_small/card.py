"""He et al.: Deep residual learning for image recognition, CVPR 2016 (arXiv 1512.03385), section 4.2."""

from __future__ import annotations

from wire.cards import ModelCard

CARD = ModelCard(
    name="resnet20",
    label="ResNet-20",
    summary="The residual network for images of about 32 px.",
    implementation="engine.models.resnet_small.model:RESNET20",
    family="ResNet",
    year=2015,
    min_px=8,
    default_px=32,
    n_parameters=334_072,
    n_flops=81_228_800,
    code_licence="Fovea's own code",
    small_images=True,
)
