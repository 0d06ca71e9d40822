"""``report.json`` of an evaluation: how good one checkpoint is on one dataset, split by split."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from wire.manifests import SplitName
from wire.specs.predictions import CheckpointRef


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class ClassScore(_Report):
    """Of one class; shares are 0 to 1, None where nothing was there to divide by."""

    label: int
    name: str
    support: int
    """Images that are of this class."""
    n_predicted: int
    """Images that were taken for it."""
    precision: float | None
    recall: float | None
    f1: float | None


class ReliabilityBin(_Report):
    """Images whose highest probability lies above ``lower`` and at most at ``upper``."""

    lower: float
    upper: float
    n_images: int
    confidence: float | None
    """Their mean highest probability."""
    accuracy: float | None
    """The share of them that was right."""


class Confusion(_Report):
    """How many images of ``label`` were taken for ``predicted``."""

    label: int
    predicted: int
    n_images: int


class SplitEvaluation(_Report):
    split: SplitName
    n_images: int
    loss: float | None
    """Mean cross entropy; None where it is not finite."""
    top1: float
    """0 to 1, as all shares here."""
    top5: float | None
    """None with five classes or fewer, where it says nothing."""
    macro_precision: float
    macro_recall: float
    macro_f1: float
    """Unweighted means over the classes that have images in this split."""
    ece: float
    """Expected calibration error over ``reliability``.

    Source: Guo et al., On calibration of modern neural networks (2017), equation 3.
    """
    classes: tuple[ClassScore, ...]
    reliability: tuple[ReliabilityBin, ...]
    confusion: tuple[Confusion, ...]
    """Only pairs that occur, in the order of label, then predicted."""


class EvaluationReport(_Report):
    schema_version: int = 1
    checkpoint: CheckpointRef
    run: int | None
    """Id of the run that made the checkpoint."""
    dataset: int | None
    """Id of the import that made the dataset."""
    dataset_name: str
    samples_sha256: str
    classes: tuple[str, ...]
    splits: tuple[SplitEvaluation, ...]
    notes: tuple[str, ...] = Field(default=())
    """Sentences, for example that there is no validation split."""
    device: str
    created_at: datetime
