"""What a bundle is made of: exports whose verdict allows it, and what is known of the run behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wire.cards import ModelCard, WeightsCard
from wire.evaluation import EvaluationReport
from wire.exports import ExportedFile, ExportReport, Failed, NotRun, Passed
from wire.layout import ExportDir
from wire.manifests import DatasetManifest
from wire.specs import TrainSpec

WEIGHTS: Final = "pytorch"
"""The backend whose export is the trained weights as they are."""
ONNX: Final = "onnx"
_BACKENDS: Final = (WEIGHTS, ONNX)
_PRECISIONS: Final = ("fp32", "fp16", "int8")


@dataclass(frozen=True, slots=True)
class Overridden:
    """It failed, and somebody answers for it all the same."""

    by: str
    at: datetime
    reason: str
    failed: Failed


@dataclass(frozen=True, slots=True)
class Entry:
    """An export that goes into the bundle. One that failed is none: by its type, and when it is made."""

    report: ExportReport
    folder: ExportDir
    verdict: Passed | NotRun | Overridden

    def __post_init__(self) -> None:
        measured = self.report.verdict
        own = self.verdict.failed if isinstance(self.verdict, Overridden) else self.verdict
        if isinstance(self.verdict, Failed) or own != measured:
            raise ValueError(f"{self.name} was measured as {measured.outcome} and is to be handed out as {own.outcome}")

    @property
    def backend(self) -> str:
        return self.report.backend.name

    @property
    def name(self) -> str:
        """Of its folder in the bundle, and for ``--model``."""
        return f"{self.backend}-{self.report.precision}"

    @property
    def order(self) -> tuple[int, str, int]:
        """That of the tables, whatever the order in which exports were chosen."""
        backend = _BACKENDS.index(self.backend) if self.backend in _BACKENDS else len(_BACKENDS)
        return backend, self.backend, _PRECISIONS.index(self.report.precision)

    def files(self, *roles: str) -> list[ExportedFile]:
        return [file for file in self.report.files if file.role in roles]


@dataclass(frozen=True, slots=True)
class Curve:
    """A few points of a recorded series."""

    name: str
    unit: str
    points: tuple[tuple[int, float | None], ...]
    """Step and value; None where that was not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of the training. None where it is not there any more, or never was."""

    id: int
    title: str
    recipe: TrainSpec
    model: ModelCard | None
    """None for a model that is not installed any more."""
    began_with: WeightsCard | None = None
    """Published weights that it was fine-tuned from."""
    dataset: DatasetManifest | None = None
    evaluation: EvaluationReport | None = None
    curves: tuple[Curve, ...] = ()
    steps_per_epoch: int = 0
