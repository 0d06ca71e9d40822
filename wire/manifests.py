"""``manifest.json`` of a dataset: what it holds, where it came from, and what was left out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

SplitName: TypeAlias = Literal["train", "val", "test"]


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class SizeRange(_Manifest):
    """Width or height over all images, in pixels."""

    min: int
    median: int
    max: int


class Refused(_Manifest):
    name: str
    reason: str


ReportKind: TypeAlias = Literal[
    "refused", "ignored", "duplicate", "leak", "class_not_chosen", "class_too_small", "over_maximum"
]
"""Why a file is not in the dataset. ``ignored``: left behind by an operating system. A ``leak`` may have been kept."""


class Warned(_Manifest):
    """Something about the data that a person should know before training on it."""

    code: str
    text: str


class DatasetManifest(_Manifest):
    schema_version: int = 2
    name: str
    task: str
    classes: tuple[str, ...]
    counts: dict[SplitName, tuple[int, ...]]
    """Images of each class, by split; the order is that of ``classes``."""
    width_px: SizeRange
    height_px: SizeRange
    colour: Literal["rgb", "grey"]
    """Grey where every image is."""
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    """Per channel over the train split (all, where there is none), 0 to 1, grey repeated."""
    image_bytes: int
    samples_sha256: str
    """Over every sample's id, split, class and image hash, in id order: equal data, equal value."""
    source: dict[str, Any]
    licence: str = ""
    n_found: int
    refused: tuple[Refused, ...] = ()
    """The first of them; all are in the report."""
    created_at: datetime
    fovea_version: str = ""
    left_out: dict[ReportKind, int] = Field(default_factory=dict)
    """Files not in the dataset, by reason; with the images in it they add up to ``n_found``. Since version 2."""
    n_flagged: int = 0
    """Images in the dataset that the report names all the same: pictures that are in training and validation."""
    warnings: tuple[Warned, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    """``ImportOptions`` as they were."""
    notes: tuple[str, ...] = Field(default=())
    """Sentences about what was done, for example how the split was drawn."""

    def n_images(self, split: SplitName | None = None) -> int:
        splits = self.counts.values() if split is None else (self.counts.get(split, ()),)
        return sum(sum(counts) for counts in splits)
