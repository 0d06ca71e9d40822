"""Folders of jobs copied while jobs write into them, each file with its hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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


def hashed(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


def copy_job(source: JobDir, target: JobDir) -> list[Path]:
    """Copy a job's folder so that its events announce nothing that is not there. Gives the copies.

    Events are copied first, for a checkpoint that is newer than its events would never be found. One that they
    announce may be dropped before it is its turn; then the events that say so are copied too.
    """
    for _ in range(MOST_ROUNDS):
        if source.events_path.exists():
            _copy(source.events_path, target.events_path)
        copy_tree(source.path, target.path, leave_out=source.events_path)
        if _has_what_it_announces(target):
            break
    return [path for path in target.path.rglob("*") if path.is_file()]


def copy_tree(source: Path, target: Path, *, leave_out: Path | None = None) -> None:
    """Copy what is there; files that vanish meanwhile are left out, and what was copied before is not copied again."""
    target.mkdir(parents=True, exist_ok=True)
    for path in _files(source):
        copy = target / path.relative_to(source)
        if path != leave_out and not _is_same(path, copy):
            with suppress(FileNotFoundError):
                _copy(path, copy)


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


def _copy(path: Path, copy: Path) -> None:
    with path.open("rb") as original:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("wb") as file:
            shutil.copyfileobj(original, file, _BLOCK_BYTES)
    shutil.copystat(path, copy)


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
