"""Removes what is due: trash after a week, uploads that nobody wants any more, old device samples."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import ProtectedError, QuerySet
from django.utils import timezone

from jobs.models import DeviceSample, Job, Upload
from jobs.storage import storage
from jobs.submissions import forget_submissions
from jobs.upload_files import nobody_writes
from jobs.uploads import keep_until, offset_of, readers_of

KEPT_IN_TRASH = timedelta(days=7)
KEPT_ORPHANS = timedelta(hours=1)
"""Of files without a row: a row may be on its way."""
KEPT_SAMPLES = timedelta(days=2)

log = logging.getLogger(__name__)


def move_to_trash(job_id: int) -> None:
    """Take the folder of a deleted job out of the way; doing it twice is doing it once."""
    places = storage()
    folder = places.job(job_id).path
    if not folder.is_dir():
        return
    places.trash_dir.mkdir(parents=True, exist_ok=True)
    with transaction.atomic():
        # It may have been brought back since; from here on it cannot be until the folder is where the row says.
        if not list(Job.objects.select_for_update().filter(pk=job_id, trashed_at__isnull=False).values_list("pk")):
            return
        try:
            folder.rename(places.trashed(job_id))
        except OSError as error:
            log.warning("job %s stays where it is until the next round: %s", job_id, error)


def housekeep() -> None:
    """Cost: a few queries, and the time to delete what is due."""
    trashed = Job.objects.filter(trashed_at__isnull=False)
    for job_id in trashed.values_list("pk", flat=True):
        move_to_trash(job_id)
    # Newest first, because a run protects the dataset that it read.
    for job in _due().order_by("-pk"):
        _remove_if_unused(job.pk)
    _housekeep_uploads()
    forget_submissions()
    DeviceSample.objects.filter(at__lt=timezone.now() - KEPT_SAMPLES).delete()


def _due() -> QuerySet[Job]:
    return Job.objects.filter(trashed_at__lt=timezone.now() - KEPT_IN_TRASH)


def _remove_if_unused(job_id: int) -> None:
    try:
        with transaction.atomic():
            # It may have been brought back while others were removed; from here on it cannot be.
            job = _due().select_for_update().filter(pk=job_id).first()
            if job is None:
                return
            gone = remove_rows(job)
    except ProtectedError:
        return  # something that reads it goes first; its own turn comes in a later round
    remove_files(gone)


def remove_rows(job: Job) -> list[int]:
    """Of a job in the trash and of its parts; gives the ids whose files have to follow once this is committed.

    Raises:
        ProtectedError: something reads what it made.
    """
    gone = [job.pk, *job.parts.values_list("pk", flat=True)]
    job.delete()
    return gone


def remove_files(ids: Sequence[int]) -> None:
    """Of jobs that are no more, wherever their folders are."""
    for job_id in ids:
        for folder in (storage().trashed(job_id), storage().job(job_id).path):
            shutil.rmtree(folder, ignore_errors=True)
        log.info("removed job=%s", job_id)


def _housekeep_uploads() -> None:
    for upload in Upload.objects.filter(expires_at__lte=timezone.now()).order_by("pk"):
        _expire(upload)
    for upload in Upload.objects.filter(completed_at__isnull=False).order_by("pk"):
        if offset_of(upload) == 0:
            log.warning("upload %s has lost its file", upload.pk)
            upload.delete()
    _remove_orphans()


def _expire(upload: Upload) -> None:
    """Remove it, unless something reads or writes it just now."""
    if readers_of(upload.pk):
        Upload.objects.filter(pk=upload.pk).update(expires_at=keep_until())
        return
    path = storage().upload_path(upload.pk)
    with nobody_writes(path) as free:
        # The condition again: an import may have been submitted meanwhile, which puts the end off.
        due = Upload.objects.filter(pk=upload.pk, expires_at__lte=timezone.now())
        if free and due.delete()[0]:
            path.unlink(missing_ok=True)
            log.info("removed upload=%s", upload.pk)


def _remove_orphans() -> None:
    """Files without a row: what a crash left between the two."""
    folder = storage().uploads_dir
    if not folder.is_dir():
        return
    before_s = (timezone.now() - KEPT_ORPHANS).timestamp()
    old = [path for path in folder.iterdir() if path.lstat().st_mtime < before_s and not path.is_dir()]
    known = set(Upload.objects.filter(pk__in=[path.name for path in old]).values_list("pk", flat=True))
    for path in old:
        if path.name in known:
            continue
        with nobody_writes(path) as free:
            if free:
                path.unlink(missing_ok=True)
                log.info("removed the file of an upload that is not known: %s", path.name)
