"""Pictures of a dataset, made by the engine in a process of its own: the web process never loads an image library."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Self

from django.conf import settings

from jobs.models import Artifact
from jobs.storage import storage
from jobs.supervision.engine import inherited_environment
from wire.errors import DatasetMissing
from wire.specs import Augmentation, Colour, Resize, TrainOptions

MAKING_TAKES_AT_MOST_S = 60.0
WAITING_TAKES_AT_MOST_S = 30.0
N_EXAMPLES = 12
N_PICTURES = 24
THUMBNAIL_PX = 128
KEPT = 300
"""Cached answers; the oldest go first."""


class PreviewError(Exception):
    """The engine made no pictures; the text says why, for a person."""


@dataclass(frozen=True, slots=True)
class Look:
    """What decides how an image looks to a network."""

    image_px: int
    resize: Resize
    colour: Colour
    augmentation: Augmentation = "none"
    seed: int = 0

    @classmethod
    def of_training(cls, options: TrainOptions) -> Self:
        return cls(options.image_px, options.resize, options.colour, options.augmentation, options.seed)

    @classmethod
    def of_dataset(cls, meta: dict[str, Any]) -> Self:
        """Whole pictures, at their own size where they are small."""
        side_px = max(meta["width_px"]["median"], meta["height_px"]["median"]) if meta else THUMBNAIL_PX
        return cls(max(8, min(side_px, THUMBNAIL_PX)), "fill", "grey" if meta.get("colour") == "grey" else "rgb")


@dataclass(frozen=True, slots=True)
class Tile:
    src: str
    """A ``data:`` address."""
    label: str


def pictures_of(dataset_job_id: int, look: Look, *, n: int) -> list[Tile]:
    """The first pictures by the look's seed, over as many classes as there is room for.

    Cost: a read of the cache, or a process of 0.5 to 8 s where it is not there; one at a time.

    Raises:
        PreviewError: the engine refused, took too long, or is busy with other previews.
        DatasetMissing: the dataset has not been made.
    """
    dataset = Artifact.objects.filter(made_by=dataset_job_id, kind="dataset", trashed_at=None).first()
    if dataset is None:
        raise DatasetMissing(f"Dataset #{dataset_job_id} is not there.", hint="Import it first.")
    answer_path = _answer_path(dataset, look, n)
    try:
        answer = answer_path.read_text()
    except FileNotFoundError:
        dataset_dir = storage().job(dataset_job_id).resolve(dataset.path)
        with _one_at_a_time(answer_path.parent):
            answer = _made(dataset_dir, look, n, answer_path)
    images = json.loads(answer)["images"]
    return [Tile(f"data:image/png;base64,{image['png']}", f"{image['class']}: {image['name']}") for image in images]


def _answer_path(dataset: Artifact, look: Look, n: int) -> Path:
    key = json.dumps([dataset.made_by_id, dataset.sha256, n, *astuple(look)])
    folder = Path(settings.CACHE_DIR) / "previews"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Over all web processes: several at once would take the processor from trainings.

    Raises:
        PreviewError: others took too long.
    """
    deadline = time.monotonic() + WAITING_TAKES_AT_MOST_S
    with (folder / "lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PreviewError("Other examples are being made. Change a setting to try again.") from None
                time.sleep(0.1)
        yield


def _made(dataset_dir: Path, look: Look, n: int, answer_path: Path) -> str:
    """The answer, which somebody else may have made while this one waited for its turn."""
    if not answer_path.is_file():
        _make(dataset_dir, look, n, answer_path)
        _forget_oldest(answer_path.parent)
    return answer_path.read_text()


def _make(dataset_dir: Path, look: Look, n: int, answer_path: Path) -> None:
    command = [*settings.ENGINE_COMMAND, "preview", "--dataset", str(dataset_dir), "--out", str(answer_path)]
    command += ["--count", str(n), "--image-px", str(look.image_px), "--resize", look.resize]
    command += ["--colour", look.colour, "--augmentation", look.augmentation, "--seed", str(look.seed)]
    environment = {**inherited_environment(), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    try:
        made = subprocess.run(
            command,
            cwd=settings.BASE_DIR,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MAKING_TAKES_AT_MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PreviewError(f"The examples took longer than {MAKING_TAKES_AT_MOST_S:.0f} s to make.") from None
    if made.returncode:
        last_line = (made.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PreviewError(f"The examples could not be made: {last_line}")


def _forget_oldest(folder: Path) -> None:
    answers = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in answers[KEPT:]:
        path.unlink(missing_ok=True)
