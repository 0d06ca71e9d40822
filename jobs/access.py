"""The one door to jobs and uploads.

Everybody in the lab sees a job, its owner and administrators change it, private hides it.
An upload is its owner's alone.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone

from jobs.models import Job, Upload
from jobs.models.upload import UPLOAD_ID
from wire.errors import ActionRefused, NotFound, UploadMissing


def visible_jobs(user: User) -> QuerySet[Job]:
    """All jobs that the user may see; those in the trash are left out."""
    jobs = Job.objects.filter(trashed_at__isnull=True)
    return jobs if user.is_staff else jobs.filter(Q(private=False) | Q(owner=user))


def trashed_jobs(user: User) -> QuerySet[Job]:
    """What lies in the trash and the user may bring back: their own, and what was made of their runs."""
    jobs = Job.objects.filter(trashed_at__isnull=False)
    return jobs if user.is_staff else jobs.filter(Q(owner=user) | Q(part_of__owner=user))


def may_see(user: User, job: Job) -> bool:
    """What it is called, wherever it lies: ``visible_jobs`` for a job that is at hand, in the trash or not."""
    return user.is_staff or not job.private or job.owner_id == user.pk


def may_change(user: User, job: Job) -> bool:
    """Owners and administrators; what was made of a run is its owner's to cancel and delete, too."""
    if user.is_staff or job.owner_id == user.pk:
        return True
    return job.part_of is not None and job.part_of.owner_id == user.pk


def may_override(user: User, export: Job) -> bool:
    """Answer for an export that failed: the owner of its run and administrators."""
    return user.is_staff or (export.part_of is not None and export.part_of.owner_id == user.pk)


def job_for(user: User, job_id: int, *, change: bool = False) -> Job:
    """The job, if the user may see it.

    Raises:
        NotFound: there is none, it is in the trash, or it is private and another's.
        ActionRefused: ``change`` is asked by someone who owns neither it nor its run and is no administrator.
    """
    job = visible_jobs(user).select_related("owner", "part_of").filter(pk=job_id).first()
    if job is None:
        raise _no_job(job_id)
    if change and not may_change(user, job):
        raise ActionRefused(
            f"{job.title} belongs to {job.owner.username}.", hint="Ask its owner or an administrator to change it."
        )
    return job


def last_seq_for(user: User, job_id: int) -> int:
    """Up to which event the job is recorded; asked again and again, so only that is read of the row.

    Raises:
        NotFound: there is none, it is in the trash, or it is private and another's.
    """
    last_seq = visible_jobs(user).filter(pk=job_id).values_list("last_seq", flat=True).first()
    if last_seq is None:
        raise _no_job(job_id)
    return last_seq


def upload_for(user: User, upload_id: str, *, lock: bool = False) -> Upload:
    """The upload, if it is the user's own; ``lock`` keeps others from it until the transaction ends.

    Raises:
        UploadMissing: there is none, it is another's, or it has expired.
    """
    # What can be no id is not asked of a database, which may refuse it: PostgreSQL takes no zero byte.
    if not UPLOAD_ID.fullmatch(upload_id):
        raise _no_upload(upload_id)
    uploads = Upload.objects.select_for_update(of=("self",)) if lock else Upload.objects.all()
    mine = uploads.select_related("owner").filter(pk=upload_id, owner=user, expires_at__gt=timezone.now())
    upload = mine.first()
    if upload is None:
        raise _no_upload(upload_id)
    return upload


def _no_job(job_id: int) -> NotFound:
    return NotFound(f"There is no run or dataset #{job_id}.", hint="It may have been deleted; look at the home page.")


def _no_upload(upload_id: str) -> UploadMissing:
    return UploadMissing(f"There is no upload {upload_id[:40]!r}.", hint="It may have expired; upload the file again.")


def run_for(user: User, run_id: int) -> Job:
    """The training, if the user may see it.

    Raises:
        NotFound: as ``job_for``, or the id is that of something else.
    """
    run = job_for(user, run_id)
    if run.verb != "train":
        raise NotFound(f"#{run_id} ({run.title}) is not a run.", hint="Choose a run from the home page.")
    return run
