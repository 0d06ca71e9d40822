"""Cards of published weights that share their source."""

from __future__ import annotations

from wire.cards import WeightsCard


def torchvision_weights(file: str, *, top1_pct: float, version: int = 1) -> WeightsCard:
    """Weights in torchvision's store, whose file names end in the first eight digits of the file's hash."""
    return WeightsCard(
        name=f"imagenet1k_v{version}",
        file=file,
        url=f"https://download.pytorch.org/models/{file}",
        sha256=file.rpartition("-")[2].removesuffix(".pth"),
        source="torchvision",
        licence="None stated by torchvision; trained on ImageNet, whose terms allow non-commercial research",
        top1_pct=top1_pct,
    )
