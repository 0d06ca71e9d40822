from __future__ import annotations

from engine.models.architecture import torchvision_architecture

EFFICIENTNET_B0 = torchvision_architecture("efficientnet_b0", head="classifier.1", first_conv="features.0.0")
