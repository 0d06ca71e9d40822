"""Starts a training again that failed, with the usual fix for what was wrong."""

from __future__ import annotations

from django.contrib.auth.models import User

from jobs.access import job_for
from jobs.diagnosis import fixes_of
from jobs.fixes import Change
from jobs.models import Job
from jobs.requests import TrainingRequest
from jobs.services.again import job_begin_anew, job_retry
from jobs.services.imports import import_request_of, import_submit
from jobs.services.trainings import training_request_of, training_spec, training_submit
from jobs.states import ENDED
from jobs.submissions import submitted_once
from wire.errors import ActionRefused
from wire.specs import FromScratch, TrainOptions

_UNCHANGED = {"again": job_retry, "begin_anew": job_begin_anew}


@submitted_once
def job_mend(user: User, job_id: int, fix_name: str) -> Job:
    """A new training that is the old one with a fix; the old one stays as it is.

    Asked for twice while the first one has not ended, it gives that one.

    Raises:
        NotFound: the job is not there for this user.
        ActionRefused: it did not fail, or this is no fix for what was wrong with it.
        UserError, DiskFull: what submitting a training raises.
    """
    job = job_for(user, job_id)
    # Two clicks are one wish.
    Job.objects.select_for_update().get(pk=job.pk)
    fixes = fixes_of(job)
    change = fixes.get(fix_name)
    if change is None:
        offered = f"Choose one of: {', '.join(fixes)}." if fixes else "Look at its page for what to do."
        raise ActionRefused(f"{fix_name!r} is no fix for {job.title}, which is {job.status}.", hint=offered)
    if fix_name in _UNCHANGED:
        return _UNCHANGED[fix_name](user, job_id)
    under_way = Job.objects.filter(retry_of=job, owner=user, trashed_at=None).exclude(status__in=ENDED)
    request = _mended(job, training_request_of(job), change)
    if change.import_again:
        waiting = under_way.exclude(spec__dataset=job.spec["dataset"]).first()
        return waiting or training_submit(user, request.model_copy(update={"dataset": _imported_again(user, request)}))
    spec = training_spec(user, request).model_dump(mode="json")
    return under_way.filter(spec=spec).first() or training_submit(user, request)


def _imported_again(user: User, request: TrainingRequest) -> int:
    """Id of a new import of what the dataset was made of."""
    return import_submit(user, import_request_of(job_for(user, request.dataset))).pk


def _mended(job: Job, request: TrainingRequest, change: Change) -> TrainingRequest:
    options = TrainOptions.model_validate(request.options.model_dump() | change.options)
    told = f"After run #{job.pk} ({job.error_code or job.status}): {change.words}."
    notes = f"{told}\n\n{request.notes}".rstrip()
    return request.model_copy(
        update={
            "options": options,
            "devices": list(change.devices) or request.devices,
            "init": FromScratch() if change.from_scratch else request.init,
            "notes": notes,
            "retry_of": job.pk,
        }
    )
