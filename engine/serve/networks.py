"""The two kinds of networks that are asked: a checkpoint by PyTorch, and an export by the runtime it was made for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError

from engine.catalog import backend_cards, find_card
from engine.data.resize import resize
from engine.export.backends import Backend, Runtime
from engine.predict.session import Session
from wire.errors import ActionRefused, CheckpointDamaged, ImageInvalid, NotFound
from wire.exports import ExportReport
from wire.layout import ExportDir

MOST_PIXELS = 24_000_000
"""Of a picture that an export is shown: its graph holds the picture in float32 several times, 40 bytes a pixel."""
MOST_SIDE_PX = 32_767
_CPU = torch.device("cpu")
_MADE_BY_US = frozenset({"model", "engine", "weights"})
"""Roles of files that a runtime reads."""


class Network(Protocol):
    """What answers about one image."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def image_px(self) -> int: ...

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """What it sees of the picture, before its values are normalised: (H, W, C)."""
        ...

    def shares(self, image: Image.Image, pixels_HWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Probabilities of each class, (K,), of a picture and of what ``pixels`` gave for it."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Trained:
    """A checkpoint, in PyTorch."""

    session: Session

    @classmethod
    def open(cls, path: Path, *, sha256: str) -> Trained:
        """Raises ``CheckpointMissing`` or ``CheckpointDamaged``."""
        session = Session.open(path, sha256=sha256)
        # Gradients are asked of activations alone; those of the weights would double the memory.
        session.network.requires_grad_(requires_grad=False)
        return cls(session)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.session.classes

    @property
    def image_px(self) -> int:
        return self.session.image_px

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        return self.session.pixels(image)

    def shares(self, image: Image.Image, pixels_HWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        del image
        return cast("NDArray[np.float32]", self.session.probabilities(pixels_HWC[None])[0])

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Exported:
    """An export in its own runtime, which is given the picture as it is and makes it small by itself."""

    report: ExportReport
    runtime: Runtime

    @classmethod
    def open(cls, folder: ExportDir, *, sha256: str) -> Exported:
        """Load it on the CPU, once every file is known to be the one that was verified.

        Args:
            folder: where it lies.
            sha256: of its report.

        Raises:
            NotFound: it is not there.
            CheckpointDamaged: a file is not the one that was exported.
            ActionRefused: its runtime cannot run it here.
        """
        report = _report(folder, sha256)
        for file in report.files:
            if file.role in _MADE_BY_US:
                _check(folder.path / file.path, file.sha256)
        return cls(report, _runtime(report, folder))

    @property
    def classes(self) -> tuple[str, ...]:
        return self.report.classes

    @property
    def image_px(self) -> int:
        return self.report.image_px

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """By the filter whose pixels the runtime's own equal, bit for bit.

        Raises:
            ImageInvalid: the picture is too large for the runtime.
        """
        if image.width * image.height > MOST_PIXELS or max(image.size) > MOST_SIDE_PX:
            raise ImageInvalid(
                f"The picture has {image.width:,} x {image.height:,} pixels; an export is tried with at most "
                f"{MOST_PIXELS / 1e6:.0f} million, and {MOST_SIDE_PX:,} a side.",
                hint="Make it smaller, or try it with a checkpoint.",
            )
        return resize(image, self.report.image_px, self.report.resize, self.report.colour)

    def shares(self, image: Image.Image, pixels_HWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        del pixels_HWC
        return cast("NDArray[np.float32]", self.runtime.probabilities(np.asarray(image.convert("RGB"))[None])[0])

    def close(self) -> None:
        self.runtime.close()


def _report(folder: ExportDir, sha256: str) -> ExportReport:
    _check(folder.report_path, sha256)
    try:
        return ExportReport.model_validate_json(folder.report_path.read_bytes())
    except ValidationError:
        raise _damaged(folder.report_path, "cannot be read by this version") from None


def _check(path: Path, sha256: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise NotFound(
            f"There is no exported file {path}.", hint="The export may have been deleted; export it again."
        ) from None
    if found != sha256:
        raise _damaged(path, "is not the one that was exported: its hash is another")


def _damaged(path: Path, why: str) -> CheckpointDamaged:
    return CheckpointDamaged(f"The exported file {path} {why}.", hint="Export it again.")


def _runtime(report: ExportReport, folder: ExportDir) -> Runtime:
    card = find_card(backend_cards(), report.backend.name, what="backend")
    hint = "Choose another export, or the checkpoint."
    if card.missing:
        raise ActionRefused(f"{card.label} is not installed here: {', '.join(card.missing)}.", hint=hint)
    backend: Backend = card.load()()
    if reason := backend.why_not_run(folder, _CPU):
        raise ActionRefused(f"{card.label} {report.precision} is not run here: {reason}.", hint=hint)
    return backend.open(folder, _CPU)
