"""How much a job's folder takes on the disk, now and when it has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from django.db.models import Exists

from jobs import transitions
from jobs.models import Attempt, Job


def taken_bytes(folder: Path) -> int:
    """Sparse files count as what they take; files that vanish meanwhile do not count."""
    return sum(_sizes_bytes(folder))


def keep_taken_bytes(attempt: Attempt, folder: Path) -> None:
    """Write it into the job's row, for the pages that show it while the job runs; refused where the attempt is over."""
    disk_bytes = taken_bytes(folder)
    is_open = Exists(Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=True))
    rows = Job.objects.filter(is_open, pk=attempt.job_id).exclude(disk_bytes=disk_bytes)
    if rows.update(disk_bytes=disk_bytes):
        transitions.announce(attempt.job_id)


def _sizes_bytes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(parent) / name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
