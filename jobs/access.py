"""The one door to a job: everybody in the lab sees it, owner and administrator change it, private hides it."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from jobs.models import Job
from wire.errors import ActionRefused, NotFound


def visible_jobs(user: User) -> QuerySet[Job]:
    """All jobs that the user may see; those in the trash are left out."""
    jobs = Job.objects.filter(trashed_at__isnull=True)
    return jobs if user.is_staff else jobs.filter(Q(private=False) | Q(owner=user))


def may_change(user: User, job: Job) -> bool:
    return user.is_staff or job.owner_id == user.pk


def job_for(user: User, job_id: int, *, change: bool = False) -> Job:
    """The job, if the user may see it.

    Raises:
        NotFound: there is none, it is in the trash, or it is private and another's.
        ActionRefused: ``change`` is asked by someone who neither owns it nor is an administrator.
    """
    job = visible_jobs(user).select_related("owner").filter(pk=job_id).first()
    if job is None:
        raise NotFound(
            f"There is no run or dataset #{job_id}.", hint="It may have been deleted; look at the home page."
        )
    if change and not may_change(user, job):
        raise ActionRefused(
            f"{job.title} belongs to {job.owner.username}.", hint="Ask its owner or an administrator to change it."
        )
    return job
