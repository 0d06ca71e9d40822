from __future__ import annotations

from engine.models.architecture import torchvision_architecture

RESNET18 = torchvision_architecture("resnet18", head="fc", first_conv="conv1")
RESNET50 = torchvision_architecture("resnet50", head="fc", first_conv="conv1")
