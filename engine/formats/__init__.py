"""Layouts that people bring images in, and samples that Fovea brings along. What every format has in common is here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from wire.manifests import SplitName


@dataclass(frozen=True, slots=True)
class FoundImage:
    """A file that the layout says is an image of a class. Nobody has opened it yet."""

    name: str
    """Its path below the root, with ``/``; unique within the tree."""
    split: SplitName | None
    label: str
    """The name of its class."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A file that has no place in the layout."""

    name: str
    reason: str
    """Ends the sentence "<name> was left out: ..."."""
    clutter: bool = False
    """Left behind by an operating system: counted, but nobody's image."""


Found: TypeAlias = FoundImage | Stray


class DatasetFormat(Protocol):
    """What ``FormatCard.implementation`` names. Neither function opens an image or writes anything."""

    @staticmethod
    def detect(root: Path) -> float:
        """How surely the tree has this layout: 0 is no, 1 is certain. Cost: a look at some thousand names."""
        ...

    @staticmethod
    def read(root: Path) -> Iterator[Found]:
        """Every file below ``root``, once, in the same order each time."""
        ...


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts as people count: ``class 2`` before ``class 10``, whatever the case."""
    parts: list[str | int] = list(re.split(r"(\d+)", name.casefold()))
    parts[1::2] = [int(part) for part in parts[1::2]]
    return parts, name
