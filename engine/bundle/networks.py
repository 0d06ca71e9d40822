"""How a network is built by somebody who has its weights and not Fovea: by the library it is from, or by its own file.

A table, since the web side, which makes bundles, loads no torch; a test builds every entry and compares its weights'
names with those of the network that Fovea trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wire.exports import ExportReport

_MODELS_DIR: Final = Path(__file__).parent.parent / "models"
OWN: Final = "network"
"""The module of the file that lies beside the weights."""
OWN_FILE: Final = "network.py"


@dataclass(frozen=True, slots=True)
class Network:
    """``module.function(**arguments)``, with the number of classes under the name ``classes``."""

    module: str
    function: str
    first_conv: str
    """Path of the convolution that sees the image; for grey images it has one channel."""
    classes: str = "num_classes"
    side: str = ""
    """Name of the argument that the image size goes to."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None

    @property
    def package(self) -> str:
        """What has to be installed beside torch and safetensors; empty where nothing more is needed."""
        return "" if self.module == OWN else self.module.partition(".")[0]


def _torchvision(name: str, first_conv: str, **arguments: Any) -> Network:
    return Network("torchvision.models", name, first_conv, arguments={"weights": None, **arguments})


def _own(function: str, folder: str, first_conv: str) -> Network:
    return Network(OWN, function, first_conv, classes="n_classes", source=_MODELS_DIR / folder / OWN_FILE)


NETWORKS: Final[Mapping[str, Network]] = {
    "lenet5": _own("lenet5", "lenet", "features.0"),
    "resnet20": _own("resnet20", "resnet_small", "conv"),
    "alexnet": _torchvision("alexnet", "features.0"),
    "googlenet": _torchvision("googlenet", "conv1.conv", aux_logits=False, init_weights=False),
    "resnet18": _torchvision("resnet18", "conv1"),
    "resnet50": _torchvision("resnet50", "conv1"),
    "mobilenet_v3_small": _torchvision("mobilenet_v3_small", "features.0.0"),
    "efficientnet_b0": _torchvision("efficientnet_b0", "features.0.0"),
    "convnext_tiny": _torchvision("convnext_tiny", "features.0.0"),
    "swin_tiny": _torchvision("swin_t", "features.0.0"),
    "vit_small": Network(
        "timm",
        "create_model",
        "patch_embed.proj",
        side="img_size",
        arguments={"model_name": "vit_small_patch16_224", "pretrained": False},
    ),
}


def building(report: ExportReport) -> dict[str, Any] | None:
    """For ``bundle.json``: what ``load_weights.py`` calls. None for a model that came by entry point."""
    network = NETWORKS.get(report.model.name)
    if network is None:
        return None
    sides = {network.side: report.image_px} if network.side else {}
    own_options = report.model.options if network.module == OWN else {}
    return {
        "module": network.module,
        "function": network.function,
        "arguments": {**network.arguments, **own_options, **sides, network.classes: len(report.classes)},
        "first_conv": network.first_conv,
        "in_channels": 1 if report.colour == "grey" else 3,
    }
