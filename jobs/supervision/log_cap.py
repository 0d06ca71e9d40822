"""Keeps what an engine says from filling the disk: its first lines and its last ones stay, the middle goes.

The engine writes into the file itself, because it outlives its supervisor. So the middle is given back to the disk as
a hole: offsets stay what they were, and readers (``jobs.logs``) leap over it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

MIB = 2**20
MOST_BYTES = 48 * MIB
"""On the disk; then the middle goes."""
FIRST_BYTES = 1 * MIB
LAST_BYTES = 16 * MIB
LAST_COPIED_BYTES = 1 * MIB
"""Where the file system makes no holes, and the end has to be written anew."""
LOOK_EVERY_S = 0.25

_KEEP_SIZE_AND_PUNCH = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, see fallocate(2)."""

log = logging.getLogger(__name__)


class LogCap(threading.Thread):
    """From a thread, so that a database that does not answer fills no disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="log-cap", daemon=True)
        self._path = path
        self._ended = threading.Event()
        self._said = False

    def run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self.look()

    def stop(self) -> None:
        self._ended.set()
        self.join()
        self.look()

    def look(self) -> None:
        try:
            if cap(self._path) and not self._said:
                self._said = True
                log.warning("%s is longer than %s MiB: its middle is not kept", self._path, MOST_BYTES // MIB)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("%s cannot be shortened: %s", self._path, error)


def cap(path: Path) -> bool:
    """Give the middle of a file back to the disk if it takes too much of it. Cost otherwise: one stat.

    Returns:
        Whether something went.
    """
    if path.stat().st_blocks * 512 <= MOST_BYTES:
        return False
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        # Whole blocks of whatever size: a hole has no edge of zeros then.
        end = (size - LAST_BYTES) // MIB * MIB
        try:
            _punch(file.fileno(), FIRST_BYTES, end - FIRST_BYTES)
        except OSError:
            _write_end_anew(path, size)
    return True


def _punch(fd: int, offset: int, n_bytes: int) -> None:
    """Raises: OSError: the file system makes no holes."""
    if _libc().fallocate(fd, _KEEP_SIZE_AND_PUNCH, ctypes.c_long(offset), ctypes.c_long(n_bytes)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _write_end_anew(path: Path, size: int) -> None:
    """The same without holes. The engine appends, so it goes on at the new end; lines of this very moment may go."""
    with path.open("rb") as file:
        file.seek(size - LAST_COPIED_BYTES)
        end = file.read()
    os.truncate(path, FIRST_BYTES)
    with path.open("ab") as file:
        file.write(b"\n[... output is left out here ...]\n" + end[end.find(b"\n") + 1 :])
