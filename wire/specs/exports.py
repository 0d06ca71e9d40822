"""Turning a trained network into a file that other programs run, and proving that it still answers the same."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from wire.specs.predictions import CheckpointRef
from wire.specs.strict import Strict, ui
from wire.specs.train import Choice, Device

ExportPrecision: TypeAlias = Literal["fp32", "fp16", "int8"]


class CalibrationOptions(Strict):
    """How the ranges of INT8 values are found; not looked at for other precisions."""

    n_images: int = Field(
        256,
        ge=1,
        le=8192,
        title="Calibration images",
        description="Drawn from the training images, from each class in proportion.",
        json_schema_extra=ui("INT8", unit="images"),
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, title="Seed", json_schema_extra=ui("INT8", advanced=True))
    keep_float: tuple[Annotated[str, Field(max_length=300)], ...] = Field(
        (),
        max_length=500,
        title="Layers kept in float",
        description="Names as in the layer view; one that ends in a dot keeps all below it.",
        json_schema_extra=ui("INT8", advanced=True),
    )
    repair: bool = Field(
        True,  # noqa: FBT003 - a default, not an argument
        title="Put layers that hurt back to float",
        description="Until the accuracy limit holds.",
        json_schema_extra=ui("INT8"),
    )


class VerificationOptions(Strict):
    """On what the exported model is tried, and what it may lose."""

    n_images: int = Field(
        1000,
        ge=0,
        le=1_000_000,
        title="Images to verify on",
        description="Of the validation images, drawn from each class in proportion; 0 takes all of them.",
        json_schema_extra=ui("Verification", unit="images"),
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, title="Seed", json_schema_extra=ui("Verification", advanced=True))
    most_lost_points: float = Field(
        1.0,
        ge=0,
        le=100,
        title="Accuracy it may lose",
        description="Against PyTorch on the same images; more, and the verdict is failed.",
        json_schema_extra=ui("Verification", unit="points"),
    )
    least_agreement_pct: float | None = Field(
        None,
        ge=0,
        le=100,
        title="Agreement it must reach",
        description="Images with PyTorch's first answer; empty: 99.5 % for fp32, 99 % for fp16, 90 % for INT8.",
        json_schema_extra=ui("Verification", unit="%", advanced=True),
    )


class ExportSpec(Strict):
    verb: Literal["export"] = "export"
    schema_version: int = 1
    checkpoint: CheckpointRef | None = None
    """None for as long as the job waits for a training that goes on."""
    dataset: str
    """Folder of the dataset that calibrates and verifies, relative to the job's own."""
    backend: Choice
    precision: ExportPrecision = "fp32"
    calibration: CalibrationOptions = CalibrationOptions()
    verification: VerificationOptions = VerificationOptions()
    device: Device = "cpu"
