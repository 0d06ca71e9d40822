"""Datasets for other tasks than classification: known by their names, so that a refusal can say what they are.

Without this a folder of photographs beside a folder of masks would be imported as two classes.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.formats import IMAGE_SUFFIXES, suffix_of
from engine.sources.tree import Tree

_PICTURE_FOLDERS: Final = frozenset(
    {"image", "images", "img", "imgs", "jpegimages", "photos", "pictures", "leftimg8bit"}
)
_MASK_FOLDERS: Final = frozenset(
    {
        "mask", "masks", "segmentation", "segmentations", "segmentationclass", "segmentationobject", "labels", "label",
        "annotations", "annotation", "gt", "groundtruth", "ground_truth", "gtfine", "targets",
    }
)  # fmt: skip
_COCO_FILES: Final = ("instances_*.json", "*_annotations.coco.json", "_annotations.coco.json", "*coco*.json")
_YOLO_FILES: Final = frozenset({"data.yaml", "data.yml", "obj.names", "classes.txt"})
_BY_CLASS: Final = "To train a classification, put the images into one folder for each class."


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a tree is, as the end of "It holds ...", and what to do instead."""

    what: str
    hint: str


def recognised(tree: Tree) -> Foreign | None:
    """The layout of another task that the tree has; None where it has none that is known here."""
    names = tree.names()
    suffixes = Counter(map(suffix_of, names))
    n_images = sum(n for suffix, n in suffixes.items() if suffix in IMAGE_SUFFIXES)
    if not n_images:
        return None
    checks: tuple[Callable[[Sequence[str], Counter[str], int], Foreign | None], ...] = (_voc, _coco, _yolo, _masks)
    return next((foreign for check in checks if (foreign := check(names, suffixes, n_images))), None)


def _voc(names: Sequence[str], suffixes: Counter[str], n_images: int) -> Foreign | None:
    n_boxes = suffixes[".xml"]
    if 2 * n_boxes < n_images:
        return None
    n_paired = len(_stems(names, {".xml"}) & _stems(names, IMAGE_SUFFIXES))
    if 2 * n_paired < n_boxes:
        return None
    return Foreign(f"object boxes in the layout of Pascal VOC: {n_boxes:,} XML files belong to images", _boxes_hint())


def _coco(names: Sequence[str], suffixes: Counter[str], n_images: int) -> Foreign | None:
    del n_images
    if not suffixes[".json"]:
        return None
    for name in names:
        file = name.rpartition("/")[2].lower()
        if suffix_of(name) == ".json" and any(fnmatch.fnmatchcase(file, pattern) for pattern in _COCO_FILES):
            return Foreign(f"object boxes or outlines in the layout of COCO: {name}", _boxes_hint())
    return None


def _yolo(names: Sequence[str], suffixes: Counter[str], n_images: int) -> Foreign | None:
    if 2 * suffixes[".txt"] < n_images:
        return None
    is_told = any(name.rpartition("/")[2].lower() in _YOLO_FILES for name in names)
    labels = [name for name in names if suffix_of(name) == ".txt" and (is_told or "labels" in _folders(name))]
    n_paired = len(_stems(labels, {".txt"}) & _stems(names, IMAGE_SUFFIXES))
    if not labels or 2 * n_paired < len(labels):
        return None
    return Foreign(f"object boxes in the layout of YOLO: {n_paired:,} text files belong to images", _boxes_hint())


def _masks(names: Sequence[str], suffixes: Counter[str], n_images: int) -> Foreign | None:
    """Two folders with the same names in them, one of pictures and one of masks."""
    del suffixes
    pictures = set(_paired_paths(names, _PICTURE_FOLDERS))
    masks = set(_paired_paths(names, _MASK_FOLDERS)) if pictures else set()
    n_paired = len({path for path, _ in pictures} & {path for path, _ in masks})
    if not n_paired or 4 * n_paired < n_images:
        return None
    picture_folder, mask_folder = (min(folder for _, folder in found) for found in (pictures, masks))
    return Foreign(
        f"a segmentation set: {n_paired:,} files in {picture_folder!r} have a mask of the same name in {mask_folder!r}",
        f"Segmentation is not trained here. {_BY_CLASS}",
    )


def _paired_paths(names: Sequence[str], folders: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Each image's path without that folder and without its ending, and the folder as it is spelled."""
    for name in names:
        if suffix_of(name) not in IMAGE_SUFFIXES:
            continue
        parts = name.split("/")
        for index, part in enumerate(parts[:-1]):
            if part.lower() in folders:
                rest = parts[:index] + parts[index + 1 :]
                yield "/".join(rest).rpartition(".")[0], part
                break


def _stems(names: Iterable[str], suffixes: Iterable[str]) -> set[str]:
    wanted = frozenset(suffixes)
    return {name.rpartition("/")[2].rpartition(".")[0] for name in names if suffix_of(name) in wanted}


def _folders(name: str) -> list[str]:
    return name.lower().split("/")[:-1]


def _boxes_hint() -> str:
    return f"Object detection is not trained here. {_BY_CLASS}"
