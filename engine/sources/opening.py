"""From what a spec names as its source to a tree that can be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.catalog import find_card, sample_cards
from engine.sources.archive import open_archive
from engine.sources.folder import CombinedTree, FolderTree
from engine.sources.list_tree import ListsTree
from engine.sources.tree import OnProgress, StopWish, Tree
from wire.errors import DatasetInvalid, DatasetMissing, UploadMissing
from wire.layout import JobDir
from wire.specs import FromFolder, FromLists, FromSample, FromUpload, Source


@contextmanager
def open_source(
    source: Source,
    job: JobDir,
    *,
    scratch_dir: Path,
    on_progress: OnProgress,
    stop: StopWish,
    labels_needed: bool = True,
) -> Iterator[Tree]:
    """The tree that ``source`` means. What must be unpacked for it is written below ``scratch_dir`` and nowhere else.

    ``labels_needed`` is False for a classification, whose lists may give images without a class.

    Raises:
        DatasetMissing: a folder or list is not there, or may not be read.
        DatasetInvalid: a list cannot be understood.
        UploadMissing: the upload is not there any more.
        ArchiveInvalid: the upload is no archive that is read here, is cut short, or holds more than it may.
        DiskFull: there is no room to unpack it.
        SpecInvalid: there is no sample of that name.
        SourceStopped: the stop was asked for meanwhile.
    """
    scratch_dir.mkdir(parents=True, exist_ok=True)
    tree: Tree
    if isinstance(source, FromSample):
        tree = _sample(source, scratch_dir)
    elif isinstance(source, FromFolder):
        tree = _folders(source, job)
    elif isinstance(source, FromLists):
        tree = ListsTree(source, job, labels_needed=labels_needed, stop=stop)
    else:
        tree = open_archive(
            _uploaded(source, job), name=source.name, scratch_dir=scratch_dir, on_progress=on_progress, stop=stop
        )
    with tree:
        yield tree


def source_shown(source: Source) -> str:
    """How a message names a source."""
    if isinstance(source, FromSample):
        return f"the sample {source.name!r}"
    if isinstance(source, FromFolder):
        return source.path
    return source.name if isinstance(source, FromUpload) else "the text lists"


def _sample(source: FromSample, scratch_dir: Path) -> FolderTree:
    card = find_card(sample_cards(), source.name, what="sample")
    root = scratch_dir / "tree"
    card.load()(root)
    return FolderTree(root, licence=card.licence)


def _folders(source: FromFolder, job: JobDir) -> Tree:
    named = {"train": source.path, "val": source.val_path, "test": source.test_path}
    roots = {split: _existing(path, job) for split, path in named.items() if path}
    if len(roots) == 1:
        return FolderTree(roots["train"])
    if len({os.path.realpath(root) for root in roots.values()}) < len(roots):
        raise DatasetInvalid(
            "The folders of training, validation and test images must differ: "
            + ", ".join(filter(None, named.values())),
            hint="Leave the field empty to have a share drawn from the training images.",
        )
    # Validation images are often kept inside the folder of all; there they are not training images too.
    return CombinedTree(
        {
            split: FolderTree(root, skip=[other for other in roots.values() if other != root])
            for split, root in roots.items()
        }
    )


def _existing(path: str, job: JobDir) -> Path:
    root = job.resolve(path)
    if not root.is_dir():
        raise DatasetMissing(f"There is no folder {path}.", hint="Check the path on the machine that imports.")
    try:
        next(root.iterdir(), None)
    except PermissionError:
        raise DatasetMissing(
            f"The folder {path} may not be read.", hint="Give the user who runs Fovea the right to read it."
        ) from None
    return root


def _uploaded(source: FromUpload, job: JobDir) -> Path:
    path = job.resolve(source.path)
    if not path.is_file():
        raise UploadMissing(
            f"The upload {source.name!r} is not there any more.", hint="Upload it again, then start from there."
        )
    return path
