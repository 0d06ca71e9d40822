"""What every source of images looks like from outside: names, what is no ordinary file, and bytes by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias

from wire.manifests import SplitName

MAX_MEMBER_BYTES: Final = 512 * 2**20
"""The largest picture that is decoded, 80 million pixels, takes 480 MB with 16 bits and no compression."""
MAX_MEMBERS: Final = 1_000_000
"""Their names alone take some 100 MB; ImageNet's training set has 1.28 million and goes in as a folder."""

OnProgress: TypeAlias = Callable[[int, int], None]
"""Told how many bytes of how many are done while a source is made readable."""


class StopWish(Protocol):
    """``engine.stop.Stop``, as far as it is needed here."""

    @property
    def asked(self) -> bool: ...


class SourceStopped(Exception):
    """The stop was asked for while the source was being opened."""


class MemberUnreadable(ValueError):
    """Says why, as the end of the sentence "<name> was left out: ..."."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A file that cannot be taken, or that has no place in the layout."""

    name: str
    reason: str
    """Ends the sentence "<name> was left out: ..."."""
    clutter: bool = False
    """Left behind by an operating system: counted, but nobody's image."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a text list."""

    name: str
    """Of a file of the tree."""
    split: SplitName | None
    label: str
    """The name of its class; empty where the list gives none, which only a classification allows."""


class Tree(Protocol):
    """Files by name. A name is data: nothing is ever written under it. To be closed, or used with ``with``."""

    licence: str

    def names(self) -> Sequence[str]:
        """Every readable regular file: unique, ``/`` between folders, valid UTF-8, in natural order."""
        ...

    def strays(self) -> Sequence[Stray]:
        """What else there is: links, devices, names that lead elsewhere, doubles, what is encrypted or too large."""
        ...

    def empty_folders(self) -> Sequence[str]:
        """Folders below which nothing of ``names`` lies; of those inside one another the deepest."""
        ...

    def read(self, name: str) -> bytes:
        """The whole file; safe to call from several threads.

        Raises:
            MemberUnreadable: it is gone, damaged, or lies about its size.
        """
        ...

    def listed(self) -> Iterator[Listed] | None:
        """Split and class of each file where the source gives them itself (text lists); None where a layout must.

        Every name is one that ``read`` takes. Lines that cannot be used are in ``strays``, by file and line.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts as people count: ``class 2`` before ``class 10``, whatever the case."""
    # Longer numbers are cut in pieces: Python refuses to read more than 4,300 digits.
    parts: list[str | int] = list(re.split(r"(\d{1,1000})", name.casefold()))
    parts[1::2] = [int(part) for part in parts[1::2]]
    return parts, name


def in_natural_order(names: Iterable[str]) -> list[str]:
    """Folder by folder: first the files of a folder, then its folders. Keys of one folder at a time are in memory."""
    files_of: dict[str, list[str]] = {}
    for name in names:
        folder, _, _ = name.rpartition("/")
        files_of.setdefault(folder, []).append(name)
    ordered: list[str] = []
    for folder in sorted(files_of, key=_folder_key):
        ordered += sorted(files_of[folder], key=natural_key)
    return ordered


def empty_folders(folders: Iterable[str], names: Iterable[str]) -> list[str]:
    """Those of ``folders`` below which none of ``names`` lies, without those that hold another folder."""
    filled: set[str] = set()
    for folder in {name.rpartition("/")[0] for name in names}:
        filled.update(_and_parents(folder))
    empty = set(folders) - filled
    parents = {folder.rpartition("/")[0] for folder in empty}
    return sorted(empty - parents, key=_folder_key)


def _folder_key(folder: str) -> list[tuple[list[str | int], str]]:
    return [natural_key(part) for part in folder.split("/")] if folder else []


def _and_parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder, _, _ = folder.rpartition("/")
