"""What there is to classify in a source, and which class each image is of, where the source tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.sources.tree import Listed, Tree
from wire.specs import FromLists, Source


@dataclass(frozen=True, slots=True)
class Item:
    """One row to be."""

    name: str
    label: int | None
    """The number of its class in the checkpoint; None where the truth is not known."""
    error: str | None = None
    """Why it cannot even be read, as the end of a sentence about it."""


def items_of(tree: Tree, source: Source, classes: Sequence[str]) -> list[Item]:
    """Every image of a source once (of a list once a line), then what is no readable file."""
    label_of = {name: label for label, name in enumerate(classes)}
    listed = tree.listed()
    if listed is not None:
        by_number = isinstance(source, FromLists) and not source.labels
        items = [Item(one.name, _listed_label(one, label_of, by_number=by_number)) for one in listed]
    else:
        items = [Item(name, _folder_label(name, label_of)) for name in tree.names()]
    return [*items, *_unreadable(tree, label_of)]


def _unreadable(tree: Tree, label_of: Mapping[str, int]) -> Iterator[Item]:
    for stray in tree.strays():
        if not stray.clutter:
            yield Item(stray.name, _folder_label(stray.name, label_of), stray.reason)


def _folder_label(name: str, label_of: Mapping[str, int]) -> int | None:
    """By the folder nearest to the image that is called like a class: ``cat/1.png``, ``val/cat/1.png``."""
    for folder in reversed(name.split("/")[:-1]):
        if folder in label_of:
            return label_of[folder]
    return None


def _listed_label(one: Listed, label_of: Mapping[str, int], *, by_number: bool) -> int | None:
    """By the class's name, or by its number where the list comes without names; whatever else it says is no truth."""
    if one.label in label_of:
        return label_of[one.label]
    if by_number and one.label.isascii() and one.label.isdecimal() and len(one.label) < 10:
        number = int(one.label)
        return number if number < len(label_of) else None
    return None
