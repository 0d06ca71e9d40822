from __future__ import annotations

from engine.models.architecture import torchvision_architecture

MOBILENET_V3_SMALL = torchvision_architecture("mobilenet_v3_small", head="classifier.3", first_conv="features.0.0")
