"""Layouts that people bring images in, and samples that Fovea brings along. What every format has in common is here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from engine.sources.tree import Stray, Tree, natural_key
from wire.manifests import SplitName

__all__ = [
    "IMAGE_SUFFIXES",
    "DatasetFormat",
    "Found",
    "FoundImage",
    "Stray",
    "Tree",
    "natural_key",
    "not_an_image",
    "suffix_of",
]

IMAGE_SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"}
)
_SAVE_AS: Final = "save it as JPEG or PNG"
_KNOWN_SUFFIXES: Final = {
    ".svg": f"SVG is a drawing, not pixels; {_SAVE_AS}",
    ".svgz": f"SVG is a drawing, not pixels; {_SAVE_AS}",
    ".heic": f"HEIC is not read here; {_SAVE_AS}",
    ".heif": f"HEIF is not read here; {_SAVE_AS}",
    ".avif": f"AVIF is not read here; {_SAVE_AS}",
    ".jp2": f"JPEG 2000 is not read here; {_SAVE_AS}",
    ".psd": f"Photoshop files are not read here; {_SAVE_AS}",
    ".pdf": "it is a PDF document, not an image",
}


@dataclass(frozen=True, slots=True)
class FoundImage:
    """A file that the layout says is an image of a class. Nobody has opened it yet."""

    name: str
    """One of the tree's names; unique."""
    split: SplitName | None
    label: str
    """The name of its class."""


Found: TypeAlias = FoundImage | Stray


class DatasetFormat(Protocol):
    """What ``FormatCard.implementation`` names. None of it opens an image or writes anything."""

    @staticmethod
    def detect(tree: Tree) -> float:
        """How surely the tree has this layout: 0 is no, 1 is certain. Cost: a look at the names."""
        ...

    @staticmethod
    def class_names(tree: Tree) -> Sequence[str]:
        """Every class that the layout names, those without a file too, each once."""
        ...

    @staticmethod
    def read(tree: Tree) -> Iterator[Found]:
        """Every one of ``tree.names()``, once, in the same order each time; the tree's own strays are not repeated."""
        ...


def suffix_of(name: str) -> str:
    """``.jpg``, in small letters; something else where the name has none."""
    return name[name.rfind(".") :].lower()


def not_an_image(name: str) -> str | None:
    """Why a file of this name is not even opened; None where it is."""
    suffix = suffix_of(name)
    if suffix in IMAGE_SUFFIXES:
        return None
    return _KNOWN_SUFFIXES.get(suffix, "it has no image's file ending")
