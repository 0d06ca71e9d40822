"""``python -m engine preview``: some images of a dataset exactly as the network will see them.

The process that trains and the one that draws the form use this same code path: decode, resize, augment; only the
normalisation is left out, which no screen can show.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.data.decode import decode
from engine.data.resize import resize
from engine.store.reader import DatasetReader, Sample
from wire.errors import FoveaError, UserError
from wire.manifests import SplitName
from wire.specs import Augmentation, Colour, Resize

_FAILED, _ERRORED = 64, 70


def main(argv: Sequence[str]) -> int:
    """Write the answer to ``--out``; returns the exit status, 64 for what the user can mend."""
    arguments = _parser().parse_args(argv)
    try:
        with DatasetReader(arguments.dataset) as reader:
            answer = {"images": _images(reader, arguments)}
    except FoveaError as error:
        print(f"{error.message} {error.hint}", file=sys.stderr)  # noqa: T201
        return _FAILED if isinstance(error, UserError) else _ERRORED
    _write(arguments.out, json.dumps(answer))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine preview", description="Images as the network will see them."
    )
    parser.add_argument("--dataset", type=Path, required=True, help="the dataset's folder")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--split", choices=get_args(SplitName), default="train")
    parser.add_argument("--count", type=int, default=12, help="how many images")
    parser.add_argument("--image-px", type=int, required=True)
    parser.add_argument("--resize", choices=get_args(Resize), default="squash")
    parser.add_argument("--colour", choices=get_args(Colour), default="rgb")
    parser.add_argument("--augmentation", choices=get_args(Augmentation), default="none")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _images(reader: DatasetReader, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    chosen = choose(reader, arguments.split, count=arguments.count, seed=arguments.seed)
    if not chosen:
        return []
    images_NHWC = np.stack(
        [
            resize(decode(reader.image_bytes(sample.id)), arguments.image_px, arguments.resize, arguments.colour)
            for sample in chosen
        ]
    )
    if arguments.augmentation != "none":
        images_NHWC = _augmented(images_NHWC, arguments.augmentation, arguments.seed)
    classes = reader.manifest.classes
    return [
        {
            "id": sample.id,
            "name": sample.name,
            "label": sample.label,
            "class": classes[sample.label],
            "png": _png(image),
        }
        for sample, image in zip(chosen, images_NHWC, strict=True)
    ]


def choose(reader: DatasetReader, split: SplitName, *, count: int, seed: int) -> list[Sample]:
    """Images of as many classes as ``count`` allows, by the seed; in the order of classes.

    Cost: one query for each image, whatever the size of the dataset.
    """
    draw = np.random.default_rng(seed)
    counts = reader.manifest.counts.get(split, ())
    order = [int(label) for label in draw.permutation(len(counts))]
    samples: list[Sample] = []
    for label, n_taken in sorted(_shares(order, counts, count).items()):
        for offset in sorted(draw.choice(counts[label], n_taken, replace=False).tolist()):
            samples += reader.samples(split, label=label, offset=offset, limit=1)
    return samples


def _shares(order: Sequence[int], counts: Sequence[int], count: int) -> dict[int, int]:
    """How many images each class gives: one each in turn, while it has any."""
    shares = dict.fromkeys(order, 0)
    n_left = min(count, sum(counts))
    while n_left > 0:
        for label in order:
            if n_left > 0 and shares[label] < counts[label]:
                shares[label] += 1
                n_left -= 1
    return shares


def _augmented(images_NHWC: NDArray[np.uint8], preset: Augmentation, seed: int) -> NDArray[np.uint8]:
    import torch

    from engine.data.augment import Augment

    images_BCHW = torch.from_numpy(images_NHWC).permute(0, 3, 1, 2).float() / 255
    changed_BCHW = Augment(preset, images_NHWC.shape[1])(images_BCHW, torch.Generator().manual_seed(seed))
    changed_NHWC: NDArray[np.uint8] = (changed_BCHW * 255).round().byte().permute(0, 2, 3, 1).numpy()
    return changed_NHWC


def _png(image_HWC: NDArray[np.uint8]) -> str:
    file = io.BytesIO()
    Image.fromarray(image_HWC.squeeze(axis=2) if image_HWC.shape[2] == 1 else image_HWC).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _write(path: Path, text: str) -> None:
    """Whoever finds the file finds all of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)
