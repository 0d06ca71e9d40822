"""Uploads: how much of each is there, until when it is kept, and which jobs read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from jobs.models import Job, Upload
from jobs.states import ENDED
from jobs.storage import storage
from jobs.upload_files import arrived_bytes

_INPUT = re.compile(r"\.\./\.\./uploads/([0-9a-f]{32})")
_SOURCE_PATHS = ("path", "train", "val", "test", "labels")
"""Fields of a source that may name an upload."""


def keep_until() -> datetime:
    return timezone.now() + timedelta(days=settings.UPLOAD_KEEP_DAYS)


def offset_of(upload: Upload) -> int:
    """How many bytes have arrived."""
    return arrived_bytes(upload.pk)


def is_complete(upload: Upload) -> bool:
    """By the file: the row learns of the last byte a moment later, or never when the process was killed."""
    return offset_of(upload) == upload.size


def uploads_of(user: User) -> list[Upload]:
    """Newest first, those that have expired left out."""
    return list(Upload.objects.filter(owner=user, expires_at__gt=timezone.now()).order_by("-created_at", "pk"))


def upload_id_of(spec_path: str) -> str | None:
    """The upload that a path in a spec means."""
    found = _INPUT.fullmatch(spec_path)
    return found[1] if found else None


def uploads_named_by(job: Job) -> Iterator[tuple[str, str]]:
    """Id and name of each upload that the spec of an import or a classification reads."""
    source = job.spec.get("source")
    if isinstance(source, dict):
        for field in _SOURCE_PATHS:
            if upload_id := upload_id_of(str(source.get(field, ""))):
                yield upload_id, str(source.get("name") or f"list of {field}")


def readers_of(upload_id: str) -> list[Job]:
    """Jobs that read this upload and have not ended."""
    wanted = storage().upload_input_path(upload_id)
    names_it = Q()
    for field in _SOURCE_PATHS:
        names_it |= Q(**{f"spec__source__{field}": wanted})
    jobs = Job.objects.filter(names_it, verb__in=["import", "classify"], trashed_at=None)
    return list(jobs.exclude(status__in=ENDED).order_by("pk"))
