"""``<class>/...`` or ``train/<class>/...`` with ``val`` and ``test`` beside; deeper folders belong to the class above.

A single folder around it all, as archives often have, is looked through. Links are not followed: they may lead out of
the tree or in circles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from engine.formats import Found, FoundImage, Stray, natural_key
from wire.manifests import SplitName

_SPLITS: Final[dict[str, SplitName]] = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}
_CLUTTER: Final = frozenset({".ds_store", "__macosx", "thumbs.db", "desktop.ini"})
_IMAGE_SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"}
)
_LOOKED_AT: Final = 2000


@dataclass(frozen=True, slots=True)
class _Layout:
    class_dirs: list[tuple[SplitName | None, os.DirEntry[str]]]
    has_splits: bool


class FolderFormat:
    """Found by names alone; whether a file really is an image is for the import to see."""

    @staticmethod
    def detect(root: Path) -> float:
        """Sure where splits are named, half sure of bare class folders, for other layouts have folders too.

        A single class is a layout still, but a poor one: the import can then say what is wrong with it.
        """
        layout = _layout(root)
        looked_at = [found for found in islice(_walk(root, layout), _LOOKED_AT) if not _is_clutter(found)]
        images = [found for found in looked_at if isinstance(found, FoundImage)]
        if not images:
            return 0.0
        if len({found.label for found in images}) < 2 and len(looked_at) < _LOOKED_AT:
            return 0.1
        return (0.9 if layout.has_splits else 0.5) * len(images) / len(looked_at)

    @staticmethod
    def read(root: Path) -> Iterator[Found]:
        return _walk(root, _layout(root))


def _layout(root: Path) -> _Layout:
    """The class folders, each with the split that it lies in."""
    top: str | Path = root
    while len(folders := _folders(top)) == 1 and _is_wrapping(top, folders[0]):
        top = folders[0].path
    split_of = {folder: _SPLITS[folder.name.lower()] for folder in folders if folder.name.lower() in _SPLITS}
    # "train" may also be a class, of vehicles: then it holds no folders, or stands beside folders that are no splits.
    has_splits = any(split == "train" and _folders(folder) for folder, split in split_of.items()) and (
        len(split_of) > 1 or len(split_of) == len(folders)
    )
    if not has_splits:
        return _Layout([(None, folder) for folder in folders], has_splits=False)
    return _Layout(
        [(split, folder) for branch, split in split_of.items() for folder in _folders(branch)], has_splits=True
    )


def _walk(root: Path, layout: _Layout) -> Iterator[Found]:
    """Every file below ``root``: first what lies in class folders, then what lies beside them."""
    n_cut = len(os.path.join(root, ""))  # noqa: PTH118 - a million names are cut out of strings, not made into paths
    for split, folder in layout.class_dirs:
        for file in _files(folder):
            yield _found(file, file.path[n_cut:], split, folder.name)
    where = "in a class folder" + (" of train, val or test" if layout.has_splits else "")
    for file in _files(root, skip=frozenset(folder.path for _, folder in layout.class_dirs)):
        name = file.path[n_cut:]
        yield _clutter(name) or Stray(_printable(name), f"it does not lie {where}")


def _found(file: os.DirEntry[str], name: str, split: SplitName | None, label: str) -> Found:
    if clutter := _clutter(name):
        return clutter
    printable = _printable(name)
    if printable != name:
        return Stray(printable, "its name is not valid UTF-8")
    if file.is_symlink():
        return Stray(name, "it is a link")
    if os.path.splitext(name)[1].lower() not in _IMAGE_SUFFIXES:  # noqa: PTH122 - see _walk
        return Stray(name, "it has no image's file ending")
    return FoundImage(name, split, label)


def _clutter(name: str) -> Stray | None:
    if any(part in _CLUTTER or part.startswith("._") for part in PurePosixPath(name.lower()).parts):
        return Stray(_printable(name), "it was left behind by an operating system", clutter=True)
    return None


def _is_clutter(found: Found) -> bool:
    return isinstance(found, Stray) and found.clutter


def _printable(name: str) -> str:
    """Names that are no UTF-8 come from the file system with surrogates, which nothing else takes."""
    return name.encode(errors="replace").decode()


def _files(folder: Path | os.DirEntry[str], skip: frozenset[str] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """Files and links below ``folder`` in natural order, depth first; the folders in ``skip`` are not entered."""
    for entry in _entries(folder):
        if not entry.is_dir(follow_symlinks=False):
            yield entry
        elif entry.path not in skip:
            yield from _files(entry, skip)


def _folders(folder: str | Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    return [
        entry
        for entry in _entries(folder)
        if entry.is_dir(follow_symlinks=False) and entry.name.lower() not in _CLUTTER
    ]


def _is_wrapping(top: str | Path, only: os.DirEntry[str]) -> bool:
    """Whether the only folder in ``top`` is there for the whole tree, not a class and not a split."""
    return _SPLITS.get(only.name.lower()) != "train" and not _has_files(top) and bool(_folders(only))


def _has_files(folder: str | Path) -> bool:
    return any(
        not entry.is_dir(follow_symlinks=False) and entry.name.lower() not in _CLUTTER for entry in _entries(folder)
    )


def _entries(folder: str | Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: natural_key(entry.name))
