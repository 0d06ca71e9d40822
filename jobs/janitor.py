"""Puts the data folder in order when an agent starts: what killed processes left half written, and records behind."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.db import Error
from django.db.models import Min
from django.utils import timezone

from jobs import records
from jobs.backup import LOCK, UNFINISHED
from jobs.models import Attempt
from jobs.process import is_locked
from jobs.storage import storage
from wire.layout import JobDir

LEFT_ALONE = timedelta(minutes=10)
"""Whoever writes a temporary file renames it within seconds, but for backups and what attempts that run write."""

log = logging.getLogger(__name__)


def tidy_at_start() -> None:
    """Remove temporary files and write records that are behind. What fails is tried at the next start."""
    try:
        for path in list(stale_files()):
            _remove(path)
        if n_written := records.keep_all():
            log.info("wrote the records of %s jobs", n_written)
    except (Error, OSError) as error:
        log.warning("the data folder is not in order: %s", error)


def stale_files() -> Iterator[Path]:
    """Temporary files and scratch folders that are older than the oldest attempt that goes on.

    Cost: a look into each job's folder, and into those of its attempts; what jobs made is not looked into.
    """
    before_s = _oldest_needed_s()
    at_work = set(Attempt.objects.filter(ended_at=None).values_list("job_id", flat=True))
    places = storage()
    for folder in _numbered(places.jobs_dir):
        job = JobDir(folder)
        found = [*folder.glob("*.tmp"), *folder.glob(f"{records.BESIDE}*"), *folder.glob("attempts/*/*.tmp")]
        if int(folder.name) not in at_work and job.scratch_dir.is_dir():
            found.append(job.scratch_dir)
        yield from (path for path in found if _is_older(path, before_s))
    yield from (path for path in places.run_dir.glob("*.tmp") if _is_older(path, before_s))
    for path in places.backups_dir.glob(f"*{UNFINISHED}"):
        # Its age says little: what is copied for hours lies below it.
        if _is_older(path, before_s) and not is_locked(path / LOCK):
            yield path


def _oldest_needed_s() -> float:
    """Epoch seconds."""
    oldest = Attempt.objects.filter(ended_at=None).aggregate(at=Min("started_at"))["at"]
    return min(oldest or timezone.now(), timezone.now() - LEFT_ALONE).timestamp()


def _numbered(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.name.isdecimal())


def _is_older(path: Path, before_s: float) -> bool:
    try:
        return path.lstat().st_mtime < before_s
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    log.info("removed what was left half written: %s", path)
