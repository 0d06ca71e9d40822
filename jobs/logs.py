"""Logs are files, read by range."""

from __future__ import annotations

from pydantic import BaseModel

from jobs.models import Job
from jobs.storage import storage

TAIL_BYTES = 64 * 1024
MOST_BYTES = 1024 * 1024


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
            file.seek(start)
            chunk = file.read(wanted if offset is None else MOST_BYTES)
    except FileNotFoundError:
        return LogChunk(attempt=n, offset=0, end=0, size=0, text="")
    if offset is None and start > 0:
        # A tail begins with a whole line.
        cut = chunk.find(b"\n") + 1
        start, chunk = start + cut, chunk[cut:]
    return LogChunk(
        attempt=n, offset=start, end=start + len(chunk), size=size, text=chunk.decode("utf-8", errors="replace")
    )


def last_lines(job_id: int, attempt: int, n_lines: int = 20) -> str:
    """The end of a log, for the message of a job that could not say itself what went wrong."""
    path = storage().job(job_id).attempt(attempt).log_path
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 16 * 1024))
            return "\n".join(file.read().decode("utf-8", errors="replace").splitlines()[-n_lines:])
    except FileNotFoundError:
        return ""
