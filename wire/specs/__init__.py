"""What a job is asked to do: the content of ``spec.json``, all that the engine needs to know.

Options carry their own form: ``title`` is the label, ``description`` the help text, bounds are the field's own, and
``json_schema_extra`` may hold ``group`` (the form's section), ``unit``, ``labels`` (value -> label of a choice) and
``advanced``.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from wire.specs.exports import CalibrationOptions, ExportPrecision, ExportSpec, VerificationOptions
from wire.specs.imports import (
    Duplicates,
    FromFolder,
    FromLists,
    FromSample,
    FromUpload,
    ImportOptions,
    ImportSpec,
    Leaks,
    Source,
)
from wire.specs.predictions import CheckpointRef, ClassifySpec, EvaluateSpec
from wire.specs.strict import Strict
from wire.specs.train import (
    Augmentation,
    BestBy,
    Choice,
    Colour,
    Device,
    FromCheckpoint,
    FromPublished,
    FromScratch,
    Init,
    Optimiser,
    Precision,
    Resize,
    Schedule,
    TrainOptions,
    TrainSpec,
)

__all__ = [
    "SPEC",
    "AnySpec",
    "Augmentation",
    "BestBy",
    "CalibrationOptions",
    "CheckpointRef",
    "Choice",
    "ClassifySpec",
    "Colour",
    "Device",
    "Duplicates",
    "EvaluateSpec",
    "ExitReport",
    "ExportPrecision",
    "ExportSpec",
    "FromCheckpoint",
    "FromFolder",
    "FromLists",
    "FromPublished",
    "FromSample",
    "FromScratch",
    "FromUpload",
    "ImportOptions",
    "ImportSpec",
    "Init",
    "Leaks",
    "Optimiser",
    "Precision",
    "Resize",
    "Schedule",
    "Source",
    "TrainOptions",
    "TrainSpec",
    "VerificationOptions",
]

AnySpec: TypeAlias = TrainSpec | ImportSpec | EvaluateSpec | ClassifySpec | ExportSpec
SPEC: TypeAdapter[AnySpec] = TypeAdapter(Annotated[AnySpec, Field(discriminator="verb")])


class ExitReport(Strict):
    """``attempts/<n>/exit.json``: how the process ended, in its own words."""

    outcome: Literal["succeeded", "failed", "errored", "cancelled", "paused"]
    code: str = ""
    message: str = ""
    hint: str = ""
    last_seq: int = 0
