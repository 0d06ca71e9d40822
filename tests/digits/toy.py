"""DIGITS' own test set: gradients of one colour channel, each class rising to another side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = {"blue-to-left": (2, 2), "green-to-top": (1, 1), "red-to-right": (0, 0)}
"""In the order of their labels: channel, and quarter turns."""
SMALL_CLASS = "blue-to-bottom"
"""Half as many images, where it is there."""
N_EACH = 10


@dataclass(frozen=True, slots=True)
class Variant:
    """What the files are; DIGITS had these as options of the dataset."""

    size: tuple[int, int] = (10, 10)
    grey: bool = False
    ending: str = "png"


VARIANTS = {
    "colour": Variant(),
    "grey": Variant(grey=True),
    "wide": Variant(size=(20, 10)),
    "tall": Variant(size=(10, 20)),
    "jpeg": Variant(ending="jpg"),
    "raw": Variant(ending="bmp"),
    "raw-grey": Variant(ending="bmp", grey=True),
}


def gradient(channel: int, turns: int, brightness: int, variant: Variant) -> Image.Image:
    width, height = variant.size
    ramp_HW = np.tile(np.linspace(0, brightness, 10), (10, 1))
    pixels_HWC = np.zeros((10, 10, 3), np.uint8)
    pixels_HWC[:, :, channel] = np.rot90(ramp_HW, turns)
    image = Image.fromarray(pixels_HWC).resize((width, height), Image.Resampling.BILINEAR)
    return image.convert("L") if variant.grey else image


def write_toy(
    root: Path, *, first: int = 0, n_each: int = N_EACH, small: bool = False, variant: Variant = VARIANTS["colour"]
) -> Path:
    """Images ``first``, ``first + 1``... of each class; no two of different numbers are the same."""
    sizes: Mapping[str, int] = dict.fromkeys(CLASSES, n_each) | ({SMALL_CLASS: n_each // 2} if small else {})
    for name, n_images in sizes.items():
        (root / name).mkdir(parents=True)
        channel, turns = CLASSES.get(name, (2, 3))
        for n in range(first, first + n_images):
            image = gradient(channel, turns, 255 - 4 * n, variant)
            image.save(root / name / f"{n:02}.{variant.ending}", quality=90)
    return root


def first_images(root: Path) -> dict[str, Path]:
    """The first image of each class."""
    return {name: min((root / name).iterdir()) for name in CLASSES}
