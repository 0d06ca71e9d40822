"""The bytes of uploads. A file's size is how much has arrived, whatever became of the process that wrote it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jobs.storage import storage

SYNC_EVERY_BYTES = 256 * 2**20


class UploadBusy(Exception):
    """Somebody else writes to the file."""


def arrived_bytes(upload_id: str) -> int:
    try:
        return storage().upload_path(upload_id).stat().st_size
    except FileNotFoundError:
        return 0


class UploadFile:
    """Appends to the file of one upload. Nobody else can while it is open, in this process or another.

    Raises:
        UploadBusy: on making it.
    """

    def __init__(self, upload_id: str) -> None:
        path = storage().upload_path(upload_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.size_bytes = os.fstat(self._fd).st_size
        except BlockingIOError:
            os.close(self._fd)
            raise UploadBusy from None
        except BaseException:
            os.close(self._fd)
            raise
        self._unsynced_bytes = self.size_bytes
        self._closed = False
        # A request that is cancelled leaves its write running in a thread; the file stays open until that is done.
        self._guard = threading.Lock()

    def append(self, data: bytes | bytearray) -> None:
        """Write all of it. After an ``OSError``, ``size_bytes`` counts what found room."""
        with self._guard:
            if self._closed:
                return
            rest = memoryview(data)
            try:
                while rest:
                    n_written = os.write(self._fd, rest)
                    rest = rest[n_written:]
                    self._unsynced_bytes += n_written
            finally:
                rest.release()
                self.size_bytes = os.fstat(self._fd).st_size
            if self._unsynced_bytes >= SYNC_EVERY_BYTES:
                self._sync()

    def sync(self) -> None:
        with self._guard:
            if not self._closed:
                self._sync()

    def close(self) -> None:
        with self._guard:
            if not self._closed:
                self._closed = True
                os.close(self._fd)

    def _sync(self) -> None:
        os.fsync(self._fd)
        self._unsynced_bytes = 0


def sync_upload(upload_id: str) -> None:
    """Bring a whole file and its name to the disk."""
    path = storage().upload_path(upload_id)
    for each in (path, path.parent):
        fd = os.open(each, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def remove_upload_file(upload_id: str) -> None:
    storage().upload_path(upload_id).unlink(missing_ok=True)


@contextmanager
def nobody_writes(path: Path) -> Iterator[bool]:
    """Whether the file may be removed; while this is entered nobody begins to write to it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield True
        return
    try:
        free = False
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(fd)
