"""Lists that give each file its split and its class: a source of their own, or text files at the top of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.formats import Found, FoundImage, Stray, Tree, natural_key
from engine.sources.lists import lists_in
from engine.sources.tree import Listed, MemberUnreadable
from wire.errors import DatasetInvalid

_LIST_NAMES = frozenset({"train.txt", "val.txt", "test.txt", "labels.txt"})


class ListsFormat:
    """Who writes lists means them: no other layout is surer."""

    @staticmethod
    def detect(tree: Tree) -> float:
        if tree.listed() is not None:
            return 1.0
        return 0.95 if any(isinstance(line, Listed) for line in _lines(tree)) else 0.0

    @staticmethod
    def class_names(tree: Tree) -> Sequence[str]:
        return sorted({found.label for found in _lines(tree) if isinstance(found, Listed)}, key=natural_key)

    @staticmethod
    def read(tree: Tree) -> Iterator[Found]:
        """Lines first, then the files that no line names."""
        named: set[str] = set()
        for line in _lines(tree):
            if isinstance(line, Stray):
                yield line
            elif line.name in named:
                yield Stray(line.name, "a list names it a second time")
            else:
                named.add(line.name)
                yield FoundImage(line.name, line.split, line.label)
        for name in tree.names():
            if name not in named and name.rpartition("/")[2].lower() not in _LIST_NAMES:
                yield Stray(name, "no list names it")


def _lines(tree: Tree) -> Iterator[Listed | Stray]:
    """Raises ``DatasetInvalid`` where a list cannot be read."""
    listed = tree.listed()
    if listed is not None:
        return listed
    try:
        return iter(lists_in(tree) or ())
    except MemberUnreadable as error:
        raise DatasetInvalid(
            f"A text list beside the images cannot be read: {error}.", hint="Pack or copy the lists again."
        ) from None
