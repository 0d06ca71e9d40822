"""How much a job's folder takes on the disk, now and when it has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jobs import transitions
from jobs.models import Job


def taken_bytes(folder: Path) -> int:
    """Sparse files count as what they take; files that vanish meanwhile do not count."""
    return sum(_sizes_bytes(folder))


def keep_taken_bytes(job_id: int, folder: Path) -> None:
    """Write it into the row, for the pages that show it while the job runs."""
    disk_bytes = taken_bytes(folder)
    if Job.objects.filter(pk=job_id).exclude(disk_bytes=disk_bytes).update(disk_bytes=disk_bytes):
        transitions.announce(job_id)


def _sizes_bytes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(parent) / name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
