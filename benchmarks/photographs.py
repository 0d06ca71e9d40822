"""Photographs for benchmarks: pieces of a fixed size cut out of real ones, in class folders."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

from PIL import Image

N_CLASSES = 10


def cut_photographs(archive: Path, root: Path, *, n_images: int, px: int, seed: int = 0) -> None:
    """Write ``n_images`` JPEGs (quality 85) of ``px`` x ``px`` below ``root/train/<class>``, the same for equal seeds.

    Each is a random square of a photograph in ``archive``, reduced to the size.
    """
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    with zipfile.ZipFile(archive) as photographs:
        names = sorted(name for name in photographs.namelist() if not name.endswith("/"))
        sources = [Image.open(io.BytesIO(photographs.read(name))).convert("RGB") for name in names]
    for number in range(n_images):
        folder = root / "train" / f"class_{number % N_CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        _piece(sources[number % len(sources)], px, draw).save(folder / f"{number:06}.jpg", quality=85)


def _piece(source: Image.Image, px: int, draw: random.Random) -> Image.Image:
    side = draw.uniform(0.5, 1.0) * min(source.size)
    left, top = draw.uniform(0, source.width - side), draw.uniform(0, source.height - side)
    return source.resize((px, px), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
