from __future__ import annotations

from engine.models.architecture import torchvision_architecture

ALEXNET = torchvision_architecture("alexnet", head="classifier.6", first_conv="features.0")
