"""What was made of a run, each a job of its own: evaluations, classifications, exports."""

from __future__ import annotations

from pathlib import Path

from django.contrib.auth.models import User

from jobs.access import job_for
from jobs.models import Artifact, Job
from jobs.states import ENDED, Status
from jobs.storage import storage
from wire.errors import ActionRefused, NotFound

_NAMES = {"evaluate": "evaluation", "classify": "classification", "export": "export"}
_MADE = {"evaluate": "report", "classify": "predictions", "export": "export"}
"""Verb -> kind of the artifact that holds the result."""


def part_for(user: User, job_id: int, verb: str, *, change: bool = False) -> Job:
    """The part, if the user may see it.

    Raises:
        NotFound: as ``job_for``, or it is something else.
        ActionRefused: as ``job_for``.
    """
    job = job_for(user, job_id, change=change)
    if job.verb != verb:
        raise NotFound(f"#{job_id} ({job.title}) is no {_NAMES[verb]}.", hint="Choose one from the page of its run.")
    return job


def made_dir(job: Job) -> Path:
    """The folder of a part's result; whether it is there is not looked at.

    Raises:
        ActionRefused: it has not succeeded, or not yet.
    """
    made = Artifact.objects.filter(made_by=job, kind=_MADE[job.verb], trashed_at=None).first()
    if made is not None:
        return storage().job(job.pk).resolve(made.path)
    if Status(job.status) in ENDED:
        raise ActionRefused(
            f"{job.title} {'made' if job.verb == 'export' else 'found'} nothing: it is {job.status}.",
            hint=job.error_hint or "Start it again from its run.",
        )
    raise ActionRefused(f"{job.title} is {job.status}; there is no result yet.", hint="Wait until it has ended.")


def files_gone(job: Job, what: str) -> NotFound:
    return NotFound(
        f"The result of {job.title} (#{job.pk}) {what} on the server's disk.", hint="Delete it and start it again."
    )
