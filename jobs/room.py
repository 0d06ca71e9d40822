"""What still fits: the disk with its reserve, and each person's share of it for uploads."""

from __future__ import annotations

import shutil

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Sum

from jobs.models import Upload
from jobs.sizes import size_text
from wire.errors import DiskFull, UploadRefused

GIB = 2**30
MAX_UPLOADS = 500
"""Of a person at once, however small: each is a row, a file and a line of a list."""


def room_bytes() -> int:
    """Free on the disk of ``DATA_DIR`` beyond the reserve; negative where the reserve is used up."""
    return shutil.disk_usage(settings.DATA_DIR).free - round(settings.DISK_RESERVE_GIB * GIB)


def check_disk_room(need_bytes: int, *, what: str) -> None:
    """Refuse what would leave less than the reserve.

    Raises:
        DiskFull: the message says how much is missing.
    """
    missing_bytes = need_bytes - room_bytes()
    if missing_bytes <= 0:
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
