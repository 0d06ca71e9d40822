"""What runs an exported model: a backend writes its files, and opens them to answer as they will elsewhere.

The catalogue loads this package to read the cards, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wire.exports import FileRole, InputProfile
from wire.layout import ExportDir
from wire.specs import ExportPrecision

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from engine.predict.session import Session


class Asked(Protocol):
    """The part of ``engine.stop.Stop`` that a build looks at."""

    @property
    def asked(self) -> bool: ...


class BuildStopped(Exception):
    """The stop was asked for while a backend was at work; what it left in the folder is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """What a backend is given to make its files from."""

    session: Session
    """On the CPU, in fp32."""
    precision: ExportPrecision
    graph: bytes | None
    """The whole model as ONNX, already in ``precision``: ``images`` uint8 (batch, height, width, 3) to
    ``probabilities`` float32 (batch, K). None for backends that do not want it."""
    folder: ExportDir
    """Exists, and is not announced before ``build`` has returned."""
    options: dict[str, Any]
    """As in the spec's ``backend.options``; the backend validates them with its card's model."""
    stop: Asked
    tell: Callable[[str], None]
    """A line for the job's log."""


@dataclass(frozen=True, slots=True)
class Made:
    """The files of an export, durable."""

    files: tuple[tuple[FileRole, Path, str], ...]
    """Role, absolute path below the folder, and of engines the compute capability (``8.9``), else empty."""
    profile: InputProfile | None = None
    notes: tuple[str, ...] = ()
    """Sentences for the report."""


class Runtime(Protocol):
    """An exported model, loaded."""

    @property
    def device(self) -> str:
        """The processor's or the GPU's name."""
        ...

    @property
    def n_threads(self) -> int:
        """0 on a GPU."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is peculiar about this run, in sentences: another device than was asked for, for example."""
        ...

    def probabilities(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Shares of each class.

        Shapes:
            images (N, H, W, 3), N at least 1, RGB, of any one size; returns (N, K).
        """
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """What ``BackendCard.implementation`` names; made without arguments."""

    @property
    def wants_graph(self) -> bool:
        """False where it makes its files from the network alone; then no graph is converted."""
        ...

    def versions(self) -> dict[str, str]:
        """Name of a package or driver -> version."""
        ...

    def build(self, job: BuildJob) -> Made:
        """Write the files of the export.

        Raises:
            OperatorRefused: the graph holds an operator that the target does not know.
            EngineNotBuilt: the target's compiler gave nothing.
            SpecInvalid: an option is wrong, or what the backend needs is not installed here.
            BuildStopped: the stop was asked for.
        """
        ...

    def why_not_run(self, folder: ExportDir, device: torch.device) -> str:
        """Why ``open`` cannot work on this device, as a ``NotRun`` reason (``no CUDA device``); empty where it can."""
        ...

    def open(self, folder: ExportDir, device: torch.device) -> Runtime:
        """Load what ``build`` wrote: from the files alone, so that what is measured is what is delivered.

        Raises:
            ActionRefused: ``why_not_run`` says that it cannot be run here.
            OperatorRefused: the runtime does not know an operator of the graph.
        """
        ...
