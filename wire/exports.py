"""``report.json`` of an export: what was made, what it answers and how fast, and whether it may be trusted."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wire.manifests import SplitName
from wire.specs import CheckpointRef, Choice, Colour, ExportPrecision, Resize

MEASURED_BATCHES = (1, 8, 32)
TRIED_ELSEWHERE = "The same graph was tried with ONNX Runtime"
"""Begins the note about an engine that could not be run: what is known of its answers all the same."""

FileRole: TypeAlias = Literal["model", "engine", "weights", "source", "golden"]
# Files are opened by these names, and a report lies on a disk: no name leads out of the export's folder.
FilePath: TypeAlias = Annotated[
    str, Field(max_length=200, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$")
]
"""Relative to the export's folder."""


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Passed(_Report):
    outcome: Literal["passed"] = "passed"


class Failed(_Report):
    outcome: Literal["failed"] = "failed"
    reasons: tuple[str, ...] = Field(min_length=1)
    """Sentences, each with the figure and the limit."""


class NotRun(_Report):
    outcome: Literal["not_run"] = "not_run"
    reason: str
    """Without a capital and a full stop: ``no CUDA device``."""


Verdict: TypeAlias = Annotated[Passed | Failed | NotRun, Field(discriminator="outcome")]


class Interval(_Report):
    """At 95 %."""

    lower: float
    upper: float


class Agreement(_Report):
    """What the exported model answered about images that PyTorch answered too. Shares are 0 to 1."""

    split: SplitName
    n_images: int
    n_of: int
    """Images in the split; more than ``n_images`` where a sample was drawn."""
    seed: int | None
    """Of the sample, drawn from each class in proportion; None where all images were taken."""
    accuracy: float
    accuracy_interval: Interval
    """Wilson's."""
    reference_accuracy: float
    """PyTorch's, on the same images."""
    change_points: float
    """100 x (accuracy - reference_accuracy): below 0 where the export lost some."""
    change_interval: Interval
    """In points, for paired answers."""
    agreement: float
    """Images with the same first answer."""
    max_difference: float
    mean_difference: float
    """Of all probabilities, absolute."""


class Latency(_Report):
    """From pixels to probabilities, for whole batches."""

    batch: int
    n_runs: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    images_per_s: float
    """Images of all runs by their time together."""


class Speed(_Report):
    """Measured on a device that was leased to the export alone, after warming up, with images of ``image_px``."""

    device: str
    threads: int
    """0 on a GPU."""
    image_px: int
    load_ms: float
    """From the file to a model that can be asked."""
    first_ms: float
    """The first answer, batch 1."""
    latencies: tuple[Latency, ...]


class ExportedFile(_Report):
    role: FileRole
    path: FilePath
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)
    crc32: int = Field(ge=0, lt=2**32)
    compute_capability: str = ""
    """``8.9``, of engines."""


class KeptLayer(_Report):
    """A layer of an INT8 model that computes in float."""

    name: str
    why: Literal["asked", "hurt"]
    agreement: float | None = None
    """Of those that hurt: the agreement with PyTorch where this layer alone is INT8."""


class Quantisation(_Report):
    n_images: int
    seed: int
    n_layers: int
    """That could be INT8."""
    kept: tuple[KeptLayer, ...] = ()
    """In the order in which they were put back."""


class InputProfile(_Report):
    """Batches and image sides that an engine was built for."""

    least_batch: int
    typical_batch: int
    most_batch: int
    least_px: int
    typical_px: int
    most_px: int


class GoldenImage(_Report):
    """An image and what the exported model says about it."""

    path: FilePath
    """Of a PNG."""
    label: int | None
    name: str
    probabilities: tuple[float, ...]
    tolerance: float
    """By how much another machine's answer may differ in any probability."""
    is_measured: bool
    """False where the model could not be run and PyTorch answered in its place."""


class ExportReport(_Report):
    schema_version: int = 1
    checkpoint: CheckpointRef
    run: int | None
    """Id of the run that made the checkpoint."""
    dataset: int | None
    """Id of the import that made the dataset."""
    dataset_name: str
    samples_sha256: str
    classes: tuple[str, ...]
    model: Choice
    n_parameters: int
    image_px: int
    resize: Resize
    colour: Colour
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Of the colours, 0 to 1, for as many channels as the network has."""
    backend: Choice
    precision: ExportPrecision
    verdict: Verdict
    agreement: Agreement | None
    """None where it could not be run."""
    speed: Speed | None
    quantisation: Quantisation | None = None
    profile: InputProfile | None = None
    files: tuple[ExportedFile, ...]
    golden: tuple[GoldenImage, ...] = ()
    bytes: int
    """Of the models or engines, or of the weights, without golden images and sources."""
    build_s: float
    notes: tuple[str, ...] = ()
    versions: dict[str, str]
    """Name of a package or driver -> version."""
    created_at: datetime

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        """A bundle lays all but golden images into one folder, and takes each golden image from the files."""
        names = [PurePosixPath(file.path).name for file in self.files if file.role != "golden"]
        if len(set(names)) < len(names):
            raise ValueError("two files of an export have the same name")
        missing = {image.path for image in self.golden} - {file.path for file in self.files if file.role == "golden"}
        if missing:
            raise ValueError(f"golden images that are not among the files: {', '.join(sorted(missing))}")
        return self
