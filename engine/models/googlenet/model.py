from __future__ import annotations

from engine.models.architecture import torchvision_architecture

GOOGLENET = torchvision_architecture(
    "googlenet",
    head="fc",
    first_conv="conv1.conv",
    # With batch normalisation the network trains without the paper's auxiliary heads; one output keeps one loss.
    settings={"aux_logits": False, "init_weights": True},
    dropped_prefixes=("aux1.", "aux2."),
    # The published file was trained on inputs from -1 to 1.
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
)
