"""What a person asks for: the body of a submit, before it becomes a job with a spec."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from wire.manifests import SplitName
from wire.specs import (
    CalibrationOptions,
    Choice,
    ExportPrecision,
    FromFolder,
    FromPublished,
    FromSample,
    FromScratch,
    ImportOptions,
    TrainOptions,
    VerificationOptions,
)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class CheckpointInit(_Request):
    """Begin from a checkpoint that an earlier run made."""

    kind: Literal["checkpoint"] = "checkpoint"
    artifact: int


InitRequest: TypeAlias = Annotated[FromScratch | FromPublished | CheckpointInit, Field(discriminator="kind")]


class TrainingRequest(_Request):
    title: str = Field("", max_length=200)
    dataset: int
    """Id of the import job that made the dataset."""
    model: Choice
    task: Choice = Choice(name="classification")
    init: InitRequest = FromScratch()
    options: TrainOptions = TrainOptions()
    devices: list[str] = Field(default_factory=lambda: ["any"], min_length=1)
    """``any``, ``cpu``, or the UUID of a device."""
    private: bool = False
    notes: str = ""
    retry_of: int | None = None


class UploadSource(_Request):
    """One file that was uploaded: an archive."""

    kind: Literal["upload"] = "upload"
    upload: str
    """Id of the upload."""


class ServerFile(_Request):
    """A file of this machine, below ``IMPORT_ROOTS``."""

    path: str = Field(min_length=1)


class UploadedFile(_Request):
    upload: str
    """Id of the upload."""


ListFile: TypeAlias = ServerFile | UploadedFile


class ListsSource(_Request):
    """Text files of lines ``path label``; the images they name lie on this machine, below ``IMPORT_ROOTS``."""

    kind: Literal["lists"] = "lists"
    train: ListFile
    val: ListFile | None = None
    test: ListFile | None = None
    labels: ListFile | None = None
    """A class name a line; a label is then a line number counted from 0."""
    folder: str = ""
    """What relative paths in the lists begin at."""


SourceRequest: TypeAlias = Annotated[FromSample | FromFolder | UploadSource | ListsSource, Field(discriminator="kind")]
"""Where images come from, as a person says it: uploads by their id, lists wherever they are."""


class ImportRequest(_Request):
    name: str = Field(min_length=1, max_length=200)
    source: SourceRequest
    options: ImportOptions = ImportOptions()
    format: str = "auto"
    private: bool = False
    retry_of: int | None = None
    """The dataset that this one is made again from."""


class EvaluationRequest(_Request):
    """What to evaluate a run on; empty means as it is done by itself after a training."""

    checkpoint: int | None = None
    """Id of one of the run's checkpoints; without it the best one, or the last."""
    dataset: int | None = None
    """Id of the import job of another dataset than the run was trained on."""
    splits: tuple[SplitName, ...] | None = Field(None, min_length=1)
    """Without it validation and test, as far as they are there."""


class ClassificationRequest(_Request):
    run: int
    """Id of the run whose network answers."""
    checkpoint: int | None = None
    """Id of one of the run's checkpoints; without it the best one, or the last."""
    source: SourceRequest
    title: str = Field("", max_length=200)
    top: int = Field(5, ge=1, le=20)
    """How many answers for each image."""
    private: bool = False


class ExportTarget(_Request):
    """One file to be made: by which backend, with its options, and in which precision."""

    backend: Choice
    precision: ExportPrecision = "fp32"


class ExportRequest(_Request):
    """What to export a run to: a job for each target."""

    targets: tuple[ExportTarget, ...] = Field(min_length=1, max_length=50)
    checkpoint: int | None = None
    """Id of one of the run's checkpoints; without it the best one, or the last."""
    dataset: int | None = None
    """Id of the import job of another dataset than the run was trained on, to calibrate and verify with."""
    calibration: CalibrationOptions = CalibrationOptions()
    verification: VerificationOptions = VerificationOptions()
    devices: tuple[str, ...] = Field(("cpu",), min_length=1)
    """``cpu``, ``any``, or the UUID of a device: where it is built, verified and timed."""
