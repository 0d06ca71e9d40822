"""What a full disk is called, and what makes files survive a power cut."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wire.errors import DiskFull

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def disk_full_named(path: Path) -> Iterator[None]:
    """SQLite, LMDB and the operating system each have their own word for it.

    Raises:
        DiskFull: one of them said so.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error):
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


def _is_full(error: Exception) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return "full" in str(error)
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return True
    # Known by name: readers must not load LMDB for this.
    return type(error).__module__.startswith("lmdb") and type(error).__name__ == "DiskError"
