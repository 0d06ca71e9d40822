"""The loop that most people write: torchvision's ``ImageFolder``, a ``DataLoader`` with workers, eager fp32 SGD.

Trains an epoch for each line that it reads from standard input and answers with the seconds that it took.

    python -m benchmarks.peers.imagefolder --root FOLDER --image-px 128 --workers 2
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def transform(augmentation: str, image_px: int) -> Any:
    if augmentation == "none":
        changes = [transforms.Resize((image_px, image_px))]
    else:
        changes = [
            transforms.RandomResizedCrop(image_px, scale=(0.35, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.3, 0.3, 0.3),
        ]
    return transforms.Compose([*changes, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def train_epoch(network: nn.Module, loader: DataLoader[Any], optimiser: torch.optim.Optimizer) -> float:
    """Seconds that it took."""
    began_at = time.perf_counter()
    criterion = nn.CrossEntropyLoss()
    network.train()
    total_loss = 0.0
    for images_BCHW, labels_B in loader:
        optimiser.zero_grad()
        loss = criterion(network(images_BCHW), labels_B)
        loss.backward()
        optimiser.step()
        total_loss += loss.item()
    return time.perf_counter() - began_at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="holds train/<class>/<image>")
    parser.add_argument("--image-px", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--augmentation", choices=["none", "photo"], default="none")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    dataset = ImageFolder(str(arguments.root / "train"), transform(arguments.augmentation, arguments.image_px))
    loader = DataLoader(
        dataset,
        batch_size=arguments.batch_size,
        shuffle=True,
        num_workers=arguments.workers,
        persistent_workers=arguments.workers > 0,
    )
    network = resnet18(num_classes=len(dataset.classes))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for _ in sys.stdin:
        print(train_epoch(network, loader, optimiser), flush=True)


if __name__ == "__main__":
    main()
