"""What a full disk is called, and what makes files survive a power cut."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wire.errors import DiskFull

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_NEXT_TO_NOTHING_BYTES: Final = 64 * 2**20
"""More than one transaction of images writes at once."""


@contextmanager
def disk_full_named(path: Path) -> Iterator[None]:
    """SQLite, LMDB and the operating system each have their own word for it.

    Raises:
        DiskFull: one of them said so.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error, path):
            raise
        raise DiskFull(
            f"The disk is full while writing the dataset to {path}.", hint="Free some space, then import again."
        ) from error


def fsync_path(path: Path) -> None:
    """Make a file's content, or a folder's list of names, survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_full(error: Exception, path: Path) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return "full" in str(error)
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return True
    # Known by name: readers must not load LMDB for this. A write that the disk took a part of is an I/O error to it.
    if not type(error).__module__.startswith("lmdb"):
        return False
    return type(error).__name__ == "DiskError" or (
        "Input/output error" in str(error) and shutil.disk_usage(path).free < _NEXT_TO_NOTHING_BYTES
    )
