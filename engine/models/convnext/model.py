from __future__ import annotations

from engine.models.architecture import torchvision_architecture

CONVNEXT_TINY = torchvision_architecture("convnext_tiny", head="classifier.2", first_conv="features.0.0")
