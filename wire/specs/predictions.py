"""Putting images through a trained network: over a dataset that knows the answers, or over whatever was brought."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wire.manifests import SplitName
from wire.specs.imports import Source
from wire.specs.strict import Strict
from wire.specs.train import Device


class CheckpointRef(Strict):
    """Which weights, and how to know them again."""

    path: str
    """Relative to the job's folder."""
    sha256: str
    name: str
    step: int
    epoch: float
    chosen: str = ""
    """Why this one, as a sentence: by which series it is the best, or that it is the last."""


class EvaluateSpec(Strict):
    verb: Literal["evaluate"] = "evaluate"
    schema_version: int = 1
    checkpoint: CheckpointRef
    dataset: str
    """Folder of the dataset, relative to the job's own."""
    splits: tuple[SplitName, ...] = Field(("val", "test"), min_length=1)
    """Those that the dataset does not have are left out."""
    device: Device = "auto"


class ClassifySpec(Strict):
    """Answers for many images; the truth is known where the source has class folders or labels."""

    verb: Literal["classify"] = "classify"
    schema_version: int = 1
    checkpoint: CheckpointRef
    source: Source
    top: int = Field(5, ge=1, le=20)
    device: Device = "cpu"
