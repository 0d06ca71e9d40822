"""A card tells what an extension is without loading it: facts, options, and the dotted path of the implementation."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from wire.specs import ExportPrecision


class NoOptions(BaseModel):
    """For an extension that has nothing to choose."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Name for machines, label for people, options as a model, implementation as ``module:attribute``."""

    name: str
    label: str
    summary: str = ""
    options: type[BaseModel] = NoOptions
    implementation: str

    def load(self) -> Any:
        """The implementation itself; importing it may load torch."""
        module, _, attribute = self.implementation.partition(":")
        return getattr(import_module(module), attribute)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsCard:
    """Published weights: where the file comes from, and what one may do with it."""

    name: str
    file: str
    url: str
    sha256: str
    """Leading hexadecimal digits of the file's hash, as many as the publisher states; empty where it states none."""
    source: str
    licence: str
    trained_on: str = "ImageNet-1k"
    top1_pct: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard(Card):
    """A network. Counts are those of 1,000 classes at ``default_px`` with three channels, pinned by the model kit."""

    family: str
    year: int
    min_px: int
    default_px: int
    n_parameters: int
    n_flops: int
    """Multiply-adds counted as two, one image, forward."""
    code_licence: str
    weights: tuple[WeightsCard, ...] = ()
    small_images: bool = False
    """Made for images of about 32 px; offered first for such datasets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCard(Card):
    main_series: str
    """What the best checkpoint is chosen by."""
    main_better: Literal["lower", "higher"]
    fallback_series: str = "val/loss"
    """What it is chosen by where the form says "by loss"; lower is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCard(Card):
    """A layout that people bring images in. The implementation is an ``engine.formats.DatasetFormat``."""

    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCard(Card):
    """What runs an exported model. The implementation is an ``engine.export.backends.Backend``."""

    precisions: tuple[ExportPrecision, ...]
    requires: tuple[str, ...] = ()
    """Modules that have to be installed where it converts."""
    needs_cuda: bool = False
    """Its models run on a GPU alone; without one they are built and their verdict is "not run"."""
    licence: str = ""
    """Of the runtime."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of ``requires`` that are not installed here. Loads none of them."""
        return tuple(module for module in self.requires if find_spec(module) is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCard(Card):
    """A dataset bundled with the product; the implementation writes it as a tree that some format reads."""

    task: str
    licence: str
    n_images: int
    n_classes: int
    tags: tuple[str, ...] = field(default=())
