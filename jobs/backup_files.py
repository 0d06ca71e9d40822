"""Folders of jobs copied while jobs write into them, each file with its hash."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel

from jobs.records import BESIDE
from wire.layout import JobDir

MOST_ROUNDS = 5
"""Of a job that drops checkpoints as fast as they are copied."""
_BLOCK_BYTES = 1024 * 1024
_NOT_KEPT = {"lock", "beat", "scratch"}
"""Names that mean something to a process that runs, and to nobody later."""


class CopiedFile(BaseModel):
    path: str
    """Relative to the backup."""
    bytes: int
    sha256: str


@dataclass(slots=True)
class CopiedJob:
    files: set[Path] = field(default_factory=set)
    has_all: bool = False
    """Whether all that its events announce is among them."""


def hashed(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


def copy_job(source: JobDir, target: JobDir) -> CopiedJob:
    """Copy a job's folder so that its events announce nothing that is not there.

    Events are copied first, for a checkpoint that is newer than its events would never be found. One that they
    announce may be dropped before it is its turn; then the events that say so are copied too.
    """
    copied = CopiedJob()
    for _ in range(MOST_ROUNDS):
        if source.events_path.exists():
            copy_file(source.events_path, target.events_path)
            copied.files.add(target.events_path)
        copied.files |= copy_tree(source.path, target.path, leave_out=source.events_path)
        copied.has_all = _has_what_it_announces(target)
        if copied.has_all:
            break
    return copied


def copy_tree(source: Path, target: Path, *, leave_out: Path | None = None) -> set[Path]:
    """Copy what is there; files that vanish meanwhile are left out, and what was copied before is not copied again.

    Returns:
        The copies, also those from before.
    """
    copies = set()
    for path in _files(source):
        copy = target / path.relative_to(source)
        if path == leave_out:
            continue
        with suppress(FileNotFoundError):
            if not _is_same(path, copy):
                copy_file(path, copy)
            copies.add(copy)
    return copies


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_KEPT]
        for name in names:
            if name not in _NOT_KEPT and not name.endswith(".tmp") and not name.startswith(BESIDE):
                yield Path(parent) / name


def _is_same(path: Path, copy: Path) -> bool:
    try:
        a, b = path.stat(), copy.stat()
    except FileNotFoundError:
        return False
    return (a.st_size, a.st_mtime_ns) == (b.st_size, b.st_mtime_ns)


def copy_file(path: Path, copy: Path) -> None:
    """Copy it with its times and its holes; what is written to it meanwhile is left out."""
    with path.open("rb") as original:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("wb") as file:
            _copy_data(original.fileno(), file)
    shutil.copystat(path, copy)


def copy_secret(path: Path, copy: Path) -> None:
    """Copy a file that at no moment anybody but its owner may read."""
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(path.read_bytes())


def _copy_data(original: int, file: BinaryIO) -> None:
    size = os.fstat(original).st_size
    for begin, end in _data_ranges(original, size):
        at = file.seek(begin)
        while at < end and (block := os.pread(original, min(_BLOCK_BYTES, end - at), at)):
            at += file.write(block)
    # What was cut off meanwhile is no hole.
    file.truncate(min(size, os.fstat(original).st_size))


def _data_ranges(file: int, size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while at < size:
        try:
            begin = os.lseek(file, at, os.SEEK_DATA)
            end = os.lseek(file, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                yield at, size  # a file system that knows no holes
            return
        yield begin, min(end, size)
        at = end


def _has_what_it_announces(job: JobDir) -> bool:
    there: dict[str, str] = {}
    if not job.events_path.exists():
        return True
    with job.events_path.open("rb") as lines:
        for line in lines:
            if b'"artifact.' not in line or not line.endswith(b"\n"):
                continue
            with suppress(ValueError, KeyError):
                event = json.loads(line)["event"]
                if event["kind"] == "artifact.made":
                    there[event["name"]] = event["path"]
                elif event["kind"] == "artifact.dropped":
                    there.pop(event["name"], None)
    return all(job.resolve(path).exists() for path in there.values())
