from __future__ import annotations

from engine.models.architecture import torchvision_architecture

# Pads its maps to whole windows, so that its weights serve any image size.
SWIN_TINY = torchvision_architecture("swin_t", head="head", first_conv="features.0.0")
