"""What still fits: the disk with its reserve, what a paused run needs to go on, each person's share for uploads."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Max, Sum

from jobs import retry
from jobs.models import Artifact, Job, Upload
from jobs.sizes import size_text
from wire.errors import DiskFull, UploadRefused

GIB = 2**30
SHARE_ABOVE_RESERVE = 0.1
"""Of the reserve: so much more is free before a run that a full disk paused goes on, lest it stop again at once."""
LEAST_ABOVE_RESERVE_BYTES = 16 * 2**20
N_CHECKPOINTS_AHEAD = 2
"""A new checkpoint is written before an old one goes."""
MOST_DOUBLINGS = 10
MAX_UPLOADS = 500
"""Of a person at once, however small: each is a row, a file and a line of a list."""


def room_bytes() -> int:
    """Free on the disk of ``DATA_DIR`` beyond the reserve; negative where the reserve is used up."""
    return shutil.disk_usage(settings.DATA_DIR).free - round(settings.DISK_RESERVE_GIB * GIB)


def missing_room_bytes(need_bytes: int = 0) -> int:
    """How much has to be freed before so much fits beside the reserve; 0 where it fits."""
    return max(0, need_bytes - room_bytes())


def missing_to_go_on_bytes(job: Job, promised_bytes: int = 0) -> int:
    """How much has to be freed before a run goes on that a full disk has paused, beside what others were promised.

    The cache may lie on a disk of its own, which has no reserve and may have been the one that was full.
    """
    free_bytes = round(min(room_bytes(), _cache_room_bytes()))
    return max(0, room_to_go_on_bytes(job) + promised_bytes - free_bytes)


def _cache_room_bytes() -> float:
    cache = Path(settings.CACHE_DIR)
    place = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    same = place.stat().st_dev == Path(settings.DATA_DIR).stat().st_dev
    return math.inf if same else shutil.disk_usage(place).free


def room_to_go_on_bytes(job: Job) -> int:
    """What must be free beyond the reserve before it goes on.

    Each time that it was too little, and the run got no further, twice as much. Cost: three queries.
    """
    largest: int = Artifact.objects.filter(made_by=job, kind="checkpoint").aggregate(bytes=Max("bytes"))["bytes"] or 0
    above_reserve = round(settings.DISK_RESERVE_GIB * GIB * SHARE_ABOVE_RESERVE)
    need_bytes = max(LEAST_ABOVE_RESERVE_BYTES, above_reserve, N_CHECKPOINTS_AHEAD * largest)
    n_in_vain = retry.n_fruitless(job.pk, (DiskFull.code,))
    n_doublings: int = min(max(0, n_in_vain - 1), MOST_DOUBLINGS)
    return need_bytes << n_doublings


def waits_for_room(job: Job) -> str:
    """What a run that a full disk has paused waits for, in words."""
    missing_bytes = missing_to_go_on_bytes(job)
    missing = f"{size_text(missing_bytes)} are missing. " if missing_bytes else ""
    return f"The disk was full. {missing}It goes on by itself when there is room."


def check_disk_room(need_bytes: int, *, what: str) -> None:
    """Refuse what would leave less than the reserve.

    Raises:
        DiskFull: the message says how much is missing.
    """
    _refuse_without_room(missing_room_bytes(need_bytes), what)


def check_room_to_go_on(job: Job) -> None:
    """Refuse to resume a run that would stop again at once.

    Raises:
        DiskFull: the message says how much is missing.
    """
    _refuse_without_room(missing_to_go_on_bytes(job), f"{job.title} to go on")


def _refuse_without_room(missing_bytes: int, what: str) -> None:
    if not missing_bytes:
        return
    raise DiskFull(
        f"The disk has too little room for {what}: {size_text(missing_bytes)} ({missing_bytes:,} bytes) are missing.",
        hint="Delete datasets, runs or uploads that are not needed, or ask whoever runs this server for more disk."
        f" {settings.DISK_RESERVE_GIB:g} GiB are kept free (DISK_RESERVE_GIB).",
    )


def max_upload_bytes() -> int:
    return round(settings.UPLOAD_MAX_GIB * GIB)


def check_upload_quota(owner: User, size_bytes: int) -> None:
    """Refuse what is too large by itself, or beside what the owner has uploaded and not removed.

    Raises:
        UploadRefused: the message says how much is missing.
    """
    if size_bytes > max_upload_bytes():
        raise UploadRefused(
            f"A file of {size_text(size_bytes)} is larger than this server takes: {settings.UPLOAD_MAX_GIB:g} GiB.",
            hint="Split it, put it into a folder of the server, or ask the administrator to raise UPLOAD_MAX_GIB.",
        )
    taken = Upload.objects.filter(owner=owner).aggregate(total=Sum("size"), n=Count("pk"))
    if size_bytes and taken["n"] >= MAX_UPLOADS:
        raise UploadRefused(
            f"You have {taken['n']} uploads; {MAX_UPLOADS} are kept at once.",
            hint="Remove uploads that you do not need, or put many files into one archive.",
        )
    taken_bytes = taken["total"] or 0
    missing_bytes = taken_bytes + size_bytes - round(settings.UPLOAD_QUOTA_GIB * GIB)
    if missing_bytes > 0:
        raise UploadRefused(
            f"Your uploads take {size_text(taken_bytes)} of {settings.UPLOAD_QUOTA_GIB:g} GiB;"
            f" {size_text(missing_bytes)} are missing for this one.",
            hint="Remove uploads that you do not need, or ask the administrator to raise UPLOAD_QUOTA_GIB.",
        )
