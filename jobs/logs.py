"""Logs are files, read by range. What was left out of the middle of a long one is a hole, which is leapt over."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel

from jobs.models import Job
from jobs.sizes import size_text
from jobs.storage import storage

TAIL_BYTES = 64 * 1024
MOST_BYTES = 1024 * 1024
LAST_LINES_BYTES = 16 * 1024
PIECE_BYTES = 64 * 1024


class LogChunk(BaseModel):
    attempt: int
    offset: int
    """Where ``text`` begins in the file."""
    end: int
    """Where it ends; ask for the next chunk from here."""
    size: int
    """Of the whole file, in bytes."""
    text: str


def log_read(
    job: Job, *, attempt: int | None = None, tail_bytes: int | None = None, offset: int | None = None
) -> LogChunk:
    """A piece of an attempt's log: from ``offset`` on, else the last ``tail_bytes``. At most 1 MiB.

    Without ``attempt`` it is the latest one. A log that does not exist yet is empty.
    """
    folder = storage().job(job.pk)
    n = folder.latest_attempt() if attempt is None else attempt
    path = folder.attempt(n).log_path
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            wanted = min(TAIL_BYTES if tail_bytes is None else max(0, tail_bytes), MOST_BYTES)
            start = max(0, size - wanted) if offset is None else min(max(0, offset), size)
            chunk, end = _read(file, start, min(size, start + (wanted if offset is None else MOST_BYTES)))
    except FileNotFoundError:
        return LogChunk(attempt=n, offset=0, end=0, size=0, text="")
    if offset is None and start > 0:
        # A tail begins with a whole line.
        cut = chunk.find(b"\n") + 1
        start, chunk = start + cut, chunk[cut:]
    return LogChunk(attempt=n, offset=start, end=end, size=size, text=chunk.decode("utf-8", errors="replace"))


def last_lines(job_id: int, attempt: int, n_lines: int = 20) -> str:
    """The end of a log, for the message of a job that could not say itself what went wrong."""
    path = storage().job(job_id).attempt(attempt).log_path
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            chunk, _ = _read(file, max(0, size - LAST_LINES_BYTES), size)
            # Without NUL characters: PostgreSQL takes none in a text.
            text = chunk.decode("utf-8", errors="replace").replace("\0", "")
            return "\n".join(text.splitlines()[-n_lines:])
    except FileNotFoundError:
        return ""


class WholeLog(io.RawIOBase):
    """A log from its first byte to its last, without what was left out of its middle.

    Raises:
        FileNotFoundError: there is none.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._pieces = _pieces(self._file)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """The next piece, of whatever size; empty at the end."""
        return next(self._pieces, b"") if size != 0 else b""

    def close(self) -> None:
        self._file.close()
        super().close()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    size, at = file.seek(0, 2), 0
    while at < size:
        chunk, at = _read(file, at, min(size, at + PIECE_BYTES))
        yield chunk


def _read(file: BinaryIO, start: int, stop: int) -> tuple[bytes, int]:
    """What lies between, and where it ends: at the next hole, or behind the one that it begins with, which it names."""
    data_at = _seek(file, start, os.SEEK_DATA)
    said = b""
    if data_at > start:
        said = f"\n[... {size_text(data_at - start)} of output are left out here ...]\n".encode()
        stop += data_at - start
    stop = min(stop, _seek(file, data_at, os.SEEK_HOLE))
    file.seek(data_at)
    chunk = file.read(max(0, stop - data_at))
    return said + chunk, data_at + len(chunk)


def _seek(file: BinaryIO, start: int, whence: int) -> int:
    try:
        return os.lseek(file.fileno(), start, whence)
    except OSError as error:
        if error.errno == errno.ENXIO or whence == os.SEEK_HOLE:
            return file.seek(0, 2)  # at or behind the end
        return start  # a file system that knows no holes
