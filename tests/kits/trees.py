"""Small real trees of images and datasets made from them, for any test that needs one."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine.context import Context
from engine.emit import MemorySink
from engine.importing import pipeline
from engine.stop import Stop
from wire.layout import JobDir
from wire.specs import FromFolder, ImportOptions, ImportSpec


def noise(width: int, height: int, *, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """A picture whose every pixel differs."""
    shape = (height, width) if mode == "L" else (height, width, 3)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, np.uint8))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def write_images(folder: Path, count: int, *, size: tuple[int, int] = (8, 6), seed: int = 0, mode: str = "RGB") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        picture = noise(*size, seed=seed * 1000 + index, mode=mode)
        (folder / f"{index}.png").write_bytes(encoded(picture))


def class_tree(
    root: Path, classes: dict[str, int], *, size: tuple[int, int] = (8, 6), mode: str = "RGB", seed: int = 0
) -> Path:
    """``<class>/<index>.png`` with as many images as stated; trees of different seeds have no image in common."""
    for class_seed, (name, count) in enumerate(sorted(classes.items()), start=1000 * seed):
        write_images(root / name, count, size=size, seed=class_seed, mode=mode)
    return root


def job_context(folder: Path, n: int = 1) -> Context:
    """A job's folder, with events kept in memory."""
    job = JobDir(folder)
    job.attempt(n).path.mkdir(parents=True, exist_ok=True)
    attempt = job.attempt(n)
    return Context(job, attempt, n, MemorySink(), Stop(attempt), folder / "cache", None)


def sink_of(context: Context) -> MemorySink:
    assert isinstance(context.sink, MemorySink)
    return context.sink


def write_files(root: Path, files: Mapping[str, bytes]) -> Path:
    """Files by their paths below ``root``."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def imported(tree: Path, job_dir: Path, **options: Any) -> Path:
    """The dataset of a tree; returns its folder."""
    spec = ImportSpec(name=tree.name, source=FromFolder(path=str(tree)), options=ImportOptions(**options))
    assert pipeline.run(spec, job_context(job_dir)) == "succeeded"
    return JobDir(job_dir).dataset_dir
