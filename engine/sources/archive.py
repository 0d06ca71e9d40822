"""An uploaded file as a tree: which kind of archive it is, by its content and never by its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

from engine.sources.magic import HEAD_BYTES, Known, kind_of
from engine.sources.tar import TarTree
from engine.sources.tree import OnProgress, StopWish, Tree
from engine.sources.unpacking import unpacked
from engine.sources.zip import ZipTree
from wire.errors import ArchiveInvalid

_READ_HERE: Final = "zip, tar, tar.gz, tar.zst"
_PACK_AGAIN: Final = f"Unpack it, and pack the folder again as one of these: {_READ_HERE}."
_OTHERS: Final[dict[Known | None, tuple[str, str]]] = {
    "7z": ("is a 7z archive, which is not read here.", _PACK_AGAIN),
    "rar": ("is a RAR archive, which is not read here.", _PACK_AGAIN),
    "bzip2": ("is compressed with bzip2, which is not read here.", _PACK_AGAIN),
    "xz": ("is compressed with xz, which is not read here.", _PACK_AGAIN),
    "picture": (
        "is a single picture, not an archive of pictures.",
        f"Put the pictures into one folder for each class, and pack these as one of: {_READ_HERE}.",
    ),
    None: (
        f"is no archive that is read here ({_READ_HERE}).",
        "Pack the folder of your images as one of these. If it is one, it was damaged on the way: upload it again.",
    ),
}


def open_archive(path: Path, *, name: str, scratch_dir: Path, on_progress: OnProgress, stop: StopWish) -> Tree:
    """The archive ``path``, which its owner calls ``name``.

    Raises:
        ArchiveInvalid: it is no archive that is read here, is cut short, encrypted, or holds more than it may.
        DiskFull: there is no room to unpack it.
        SourceStopped: the stop was asked for meanwhile.
    """
    file = path.open("rb")
    try:
        tree = _tree_of(file, name, scratch_dir=scratch_dir, on_progress=on_progress, stop=stop)
    except BaseException:
        file.close()
        raise
    if not tree.names() and not tree.strays():
        tree.close()
        raise ArchiveInvalid(f"{name} holds no files.", hint=f"Pack the folder of your images as one of: {_READ_HERE}.")
    return tree


def _tree_of(file: BinaryIO, name: str, *, scratch_dir: Path, on_progress: OnProgress, stop: StopWish) -> Tree:
    head = os.pread(file.fileno(), HEAD_BYTES, 0)
    if not head:
        raise ArchiveInvalid(f"{name} is empty.", hint="Upload it again; if it is empty there too, pack it again.")
    kind = kind_of(head)
    if kind == "zip":
        return ZipTree(file, name, stop=stop)
    if kind == "tar":
        return TarTree(file, name, stop=stop)
    if kind in ("gzip", "zstd"):
        with file:
            spool = unpacked(file, kind, name, scratch_dir=scratch_dir, on_progress=on_progress, stop=stop)
        try:
            return TarTree(spool, name, stop=stop)
        except BaseException:
            spool.close()
            raise
    says, hint = _OTHERS[kind]
    raise ArchiveInvalid(f"{name} {says}", hint=hint)
