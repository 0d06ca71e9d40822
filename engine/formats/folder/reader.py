"""``<class>/...`` or ``train/<class>/...`` with ``val`` and ``test`` beside; deeper folders belong to the class above.

Folders around it all, as archives often have, are looked through. Names of classes are kept letter by letter: nothing
here folds case, trims blanks or changes how letters with accents are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from engine.formats import Found, FoundImage, Stray, Tree, natural_key, not_an_image
from wire.manifests import SplitName

_SPLITS: Final[dict[str, SplitName]] = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}
_LOOKED_AT: Final = 5000


@dataclass(frozen=True, slots=True)
class _Layout:
    top: str
    """What every name begins with, as ``export/2024/``; empty where there is nothing around it all."""
    split_of: Mapping[str, SplitName]
    """The split of each folder in ``top`` that is one; empty where the layout gives no splits."""
    class_names: Sequence[str]

    def found(self, name: str) -> Found:
        # A maximum of cuts, for a name may have very many parts.
        parts = name[len(self.top) :].split("/", 2) if name.startswith(self.top) else [name]
        split = self.split_of.get(parts[0])
        if self.split_of and (split is None or len(parts) < 3):
            return Stray(name, "it does not lie in a class folder of train, val or test")
        if len(parts) < 2:
            return Stray(name, "it does not lie in a class folder")
        if reason := not_an_image(name):
            return Stray(name, reason)
        return FoundImage(name, split, parts[1] if split else parts[0])


class FolderFormat:
    """Found by names alone; whether a file really is an image is for the import to see."""

    @staticmethod
    def detect(tree: Tree) -> float:
        """Sure where splits are named, half sure of bare class folders, for other layouts have folders too.

        A single class is a layout still, but a poor one: the import can then say what is wrong with it.
        """
        layout, names = _layout(tree), tree.names()
        looked_at = [layout.found(name) for name in names[:: max(1, len(names) // _LOOKED_AT)]]
        n_images = sum(isinstance(found, FoundImage) for found in looked_at)
        if not n_images:
            return 0.0
        if len(layout.class_names) < 2:
            return 0.1
        return (0.9 if layout.split_of else 0.5) * n_images / len(looked_at)

    @staticmethod
    def class_names(tree: Tree) -> Sequence[str]:
        return _layout(tree).class_names

    @staticmethod
    def read(tree: Tree) -> Iterator[Found]:
        layout = _layout(tree)
        return (layout.found(name) for name in tree.names())


class _Folders:
    """The folders of a tree, each ending in ``/``; the one around all is empty."""

    def __init__(self, tree: Tree) -> None:
        self._inner: dict[str, dict[str, None]] = {}
        self._names = tree.names()
        for folder in {name.rpartition("/")[0] for name in tree.names()}:
            self._add(folder)
        for folder in tree.empty_folders():
            self._add(folder)

    def inner(self, folder: str) -> list[str]:
        """The names of the folders in this one, in natural order."""
        return sorted(self._inner.get(folder, ()), key=natural_key)

    def has_images(self, folder: str) -> bool:
        """Whether images lie in it directly."""
        n_cut = len(folder)
        return any(
            name.startswith(folder) and name.find("/", n_cut) < 0 and not not_an_image(name) for name in self._names
        )

    def _add(self, folder: str) -> None:
        while folder:
            outer, _, name = folder.rpartition("/")
            names = self._inner.setdefault(f"{outer}/" if outer else "", {})
            if name in names:
                return
            names[name] = None
            folder = outer


_LAYOUTS: WeakKeyDictionary[Tree, _Layout] = WeakKeyDictionary()
"""A tree never changes, and finding its layout takes a look at every name."""


def _layout(tree: Tree) -> _Layout:
    if (layout := _LAYOUTS.get(tree)) is None:
        layout = _LAYOUTS[tree] = _found_layout(tree)
    return layout


def _found_layout(tree: Tree) -> _Layout:
    folders = _Folders(tree)
    top = ""
    while len(inner := folders.inner(top)) == 1 and _is_wrapping(folders, top, inner[0]):
        top += f"{inner[0]}/"
    split_of = {name: _SPLITS[name.lower()] for name in inner if name.lower() in _SPLITS}
    if not _has_splits(folders, top, split_of, n_folders=len(inner)):
        return _Layout(top, {}, inner)
    classes = _once(name for branch in split_of for name in folders.inner(f"{top}{branch}/"))
    return _Layout(top, split_of, classes)


def _is_wrapping(folders: _Folders, top: str, only: str) -> bool:
    """Whether the only folder in ``top`` is there for the whole tree, not a class and not a split."""
    inner = folders.inner(f"{top}{only}/")
    if _SPLITS.get(only.lower()) == "train" or not inner or folders.has_images(top):
        return False
    # A picture beside the folders makes it a class with folders in it, unless they are clearly those of a data set.
    return not folders.has_images(f"{top}{only}/") or any(
        _SPLITS.get(name.lower()) == "train" and folders.inner(f"{top}{only}/{name}/") for name in inner
    )


def _has_splits(folders: _Folders, top: str, split_of: Mapping[str, SplitName], *, n_folders: int) -> bool:
    """``train`` may also be a class, of vehicles: then it holds no folders, or stands beside other folders than splits.

    Validation and test folders alone are splits as well: images to evaluate on.
    """
    with_classes = [split for name, split in split_of.items() if folders.inner(f"{top}{name}/")]
    if "train" in with_classes:
        return len(split_of) > 1 or n_folders == 1
    return len(set(with_classes)) > 1 and len(split_of) == n_folders


def _once(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=natural_key)
