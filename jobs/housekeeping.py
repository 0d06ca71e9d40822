"""Removes what is due: trash after a week, old device samples."""

from __future__ import annotations

import logging
import shutil
from datetime import timedelta

from django.db.models import ProtectedError
from django.utils import timezone

from jobs.models import DeviceSample, Job
from jobs.storage import storage

KEPT_IN_TRASH = timedelta(days=7)
KEPT_SAMPLES = timedelta(days=2)

log = logging.getLogger(__name__)


def move_to_trash(job_id: int) -> None:
    """Take the folder of a deleted job out of the way; doing it twice is doing it once."""
    places = storage()
    folder = places.job(job_id).path
    if not folder.is_dir():
        return
    places.trash_dir.mkdir(parents=True, exist_ok=True)
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
    for job in trashed.filter(trashed_at__lt=timezone.now() - KEPT_IN_TRASH).order_by("-pk"):
        _remove(job)
    DeviceSample.objects.filter(at__lt=timezone.now() - KEPT_SAMPLES).delete()


def _remove(job: Job) -> None:
    job_id = job.pk
    try:
        job.delete()
    except ProtectedError:
        return  # something that reads it goes first; its own turn comes in a later round
    shutil.rmtree(storage().trashed(job_id), ignore_errors=True)
    log.info("removed job=%s", job_id)
