"""Text lists that lie in a tree, beside the images which they name."""

from __future__ import annotations

import posixpath
from itertools import islice
from typing import Final

from engine.sources.list_lines import LineRefused, Reading, class_names, lines_of
from engine.sources.tree import Listed, MemberUnreadable, Stray, Tree
from wire.errors import DatasetInvalid
from wire.manifests import SplitName

_LABELS: Final = "labels.txt"
_SPLITS: Final[tuple[SplitName, ...]] = ("train", "val", "test")
_LOOKED_AT: Final = 100


def lists_in(tree: Tree) -> list[Listed | Stray] | None:
    """The lists ``train.txt``, ``val.txt``, ``test.txt`` and ``labels.txt`` at the top of a tree.

    None where there is no ``train.txt``, or one that is no such list. A stray is a line that cannot be used, named by
    file and line; files of the tree that no line names are not in it. A single folder around it all is looked through.

    Raises:
        DatasetInvalid: a list is no UTF-8 text, or the labels file cannot be used.
        MemberUnreadable: a list is damaged in the archive.
    """
    names = frozenset(tree.names())
    top = _top_of(names)
    if top is None or not _is_list(tree, top, names):
        return None
    found: list[Listed | Stray] = []
    taken: set[str] = set()
    reading = _reading_of(tree, top, names)
    shown = [(f"{split}.txt", split) for split in _SPLITS if f"{top}{split}.txt" in names]
    for file, split in shown:
        for number, text in lines_of(_lines(tree, top + file), file):
            listed = _listed(reading, text, split if len(shown) > 1 else None, top, names)
            if isinstance(listed, Listed) and listed.name in taken:
                listed = "it names a file that another line names"
            if isinstance(listed, Listed):
                taken.add(listed.name)
            found.append(listed if isinstance(listed, Listed) else Stray(f"{file} line {number}", listed))
    return found


def _top_of(names: frozenset[str]) -> str | None:
    """Where ``train.txt`` lies, with a slash at the end."""
    if "train.txt" in names:
        return ""
    folders = {name.partition("/")[0] + "/" for name in names}
    (top,) = folders if len(folders) == 1 else ("",)
    return top if f"{top}train.txt" in names else None


def _is_list(tree: Tree, top: str, names: frozenset[str]) -> bool:
    """Lists of other kinds have the same name: of pairs of pictures, or of paths alone."""
    reading = Reading(None)
    try:
        looked_at = [text for _, text in islice(lines_of(_lines(tree, f"{top}train.txt"), "train.txt"), _LOOKED_AT)]
    except (DatasetInvalid, MemberUnreadable):
        return False
    listed = [_listed(reading, text, None, top, names) for text in looked_at]
    good = [one for one in listed if isinstance(one, Listed) and not _name_in(one.label, top, names)]
    return bool(good) and 2 * len(good) >= len(looked_at)


def _reading_of(tree: Tree, top: str, names: frozenset[str]) -> Reading:
    if top + _LABELS not in names:
        return Reading(None)
    return Reading(class_names(_lines(tree, top + _LABELS), _LABELS))


def _listed(reading: Reading, text: str, split: SplitName | None, top: str, names: frozenset[str]) -> Listed | str:
    """What a line names, or why it cannot be used."""
    try:
        line = reading.line(text)
    except LineRefused as error:
        return str(error)
    name = _name_in(line.path, top, names)
    return Listed(name, split, line.label) if name else f"there is no file {line.path} beside the list"


def _name_in(path: str, top: str, names: frozenset[str]) -> str | None:
    """The member that a path of a list means; lists written on Windows have backslashes."""
    candidates = (posixpath.normpath(top + path), posixpath.normpath(top + path.replace("\\", "/")))
    return next((name for name in candidates if name in names), None)


def _lines(tree: Tree, name: str) -> list[bytes]:
    return tree.read(name).split(b"\n")
