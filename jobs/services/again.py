"""A new job in place of an earlier one: the same once more, the same with changes, the same from its first step.

What is paused or was interrupted goes on as the same job; here one has ended, and its record stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from pydantic import ValidationError

from jobs.access import job_for, visible_jobs
from jobs.lineage import dataset_job_id, dataset_trained_on
from jobs.models import Job
from jobs.requests import ClassificationRequest, ExportRequest, ExportTarget, TrainingRequest
from jobs.room import check_disk_room
from jobs.services.classifications import classification_submit
from jobs.services.evaluations import evaluation_submit
from jobs.services.exports import exports_submit
from jobs.services.imports import import_request_of, import_submit, source_request_of
from jobs.services.trainings import training_request_of, training_submit
from jobs.states import ENDED, Status
from jobs.submissions import submitted_once
from wire.errors import ActionRefused, NoCheckpointIntact, SpecInvalid
from wire.specs import ClassifySpec, EvaluateSpec, ExportSpec


@submitted_once
def job_retry(user: User, job_id: int) -> Job:
    """Queue what has ended once more, as a new job with the same settings.

    While an equal one that the same person asked for has not ended, that one is given back: a button that was pressed
    twice starts one job.

    Raises:
        NotFound: it is not there for this user, or what it read is not.
        ActionRefused: it has not ended, or there is nothing left to make it of.
        DatasetMissing, UploadMissing: what it read is gone.
        SpecInvalid: it asks for what this server does not have any more.
        DiskFull: the disk would not hold what it makes.
    """
    # One asks at a time, so that the second finds the first's.
    list(Job.objects.select_for_update().filter(pk=job_id).values_list("pk"))
    job = job_for(user, job_id)
    if Status(job.status) not in ENDED:
        raise ActionRefused(
            f"{job.title} is {job.status}: it has not ended.", hint="Let it go on, resume it, or cancel it first."
        )
    check_disk_room(0, what=f"{job.title} to be started again")
    return _under_way(user, job) or _marked(_submitted(user, job), job)


def _under_way(user: User, earlier: Job) -> Job | None:
    again = visible_jobs(user).filter(retry_of=earlier, owner=user, verb=earlier.verb).exclude(status__in=ENDED)
    return next((job for job in again.order_by("-pk") if job.spec == earlier.spec), None)


def _submitted(user: User, job: Job) -> Job:
    match job.verb:
        case "train":
            return training_submit(user, training_request_of(job))
        case "import":
            return import_submit(user, import_request_of(job))
        case "evaluate":
            return _evaluation(user, job)
        case "classify":
            return classification_submit(user, _classification_request_of(job))
        case "export":
            (submitted,) = exports_submit(user, run_id_of(job), export_request_of(job))
            return submitted.job
        case _:
            raise ActionRefused(f"{job.title} cannot be started again.", hint="Start a new one from its run's page.")


def _marked(job: Job, earlier: Job) -> Job:
    if job.retry_of_id is None and job.pk != earlier.pk:
        Job.objects.filter(pk=job.pk).update(retry_of=earlier)
        job.retry_of = earlier
    return job


def _evaluation(user: User, job: Job) -> Job:
    spec = EvaluateSpec.model_validate(job.spec)
    return evaluation_submit(
        user, run_id_of(job), checkpoint=_checkpoint_id(job), dataset=dataset_job_id(job.spec), splits=spec.splits
    )


def _classification_request_of(job: Job) -> ClassificationRequest:
    spec = ClassifySpec.model_validate(job.spec)
    return ClassificationRequest(
        run=run_id_of(job),
        checkpoint=_checkpoint_id(job),
        source=source_request_of(spec.source),
        title=job.title,
        top=spec.top,
        private=job.private,
    )


def export_request_of(job: Job) -> ExportRequest:
    """The request that would export this again."""
    spec = ExportSpec.model_validate(job.spec)
    dataset = dataset_job_id(job.spec)
    own = dataset_trained_on(job.part_of) if job.part_of else None
    is_own = own is not None and own.made_by_id == dataset
    return ExportRequest(
        targets=(ExportTarget(backend=spec.backend, precision=spec.precision),),
        checkpoint=_checkpoint_id(job),
        dataset=None if is_own else dataset,
        calibration=spec.calibration,
        verification=spec.verification,
        devices=tuple(job.wants) or ("cpu",),
    )


def run_id_of(part: Job) -> int:
    """The run that an evaluation, a classification or an export was made of.

    Raises:
        ActionRefused: it is gone.
    """
    if part.part_of_id is None:
        raise ActionRefused(f"The run of {part.title} is gone.", hint="Choose another run.")
    return part.part_of_id


def _checkpoint_id(job: Job) -> int | None:
    used = job.inputs.filter(role="checkpoint", artifact__trashed_at=None).first()
    return used.artifact_id if used else None


def job_clone(user: User, job_id: int, changes: Mapping[str, Any]) -> Job:
    """Queue a training with the settings of another one, but for ``changes``, whatever has become of that one.

    Args:
        user: whose the new one is.
        job_id: the training whose settings are taken.
        changes: fields of ``TrainingRequest``; of ``options`` those that are named, the others stay.

    Raises:
        ActionRefused: the job is not a training.
        SpecInvalid: the changes do not fit.
        NotFound, DatasetMissing, DiskFull: as ``training_submit``.
    """
    asked = training_request_of(job_for(user, job_id)).model_dump(mode="json")
    options = changes.get("options", {})
    if not isinstance(options, Mapping):
        raise SpecInvalid("options: a list of names and values is wanted.", hint='Send {"options": {"epochs": 5}}.')
    try:
        request = TrainingRequest.model_validate(
            {**asked, **changes, "options": {**asked["options"], **options}, "retry_of": job_id}
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        hint = f"Ask GET /jobs/{job_id}/request for what can be changed."
        raise SpecInvalid(f"{where}: {first['msg'].removeprefix('Value error, ')}.", hint=hint) from None
    return training_submit(user, request)


def job_begin_anew(user: User, job_id: int) -> Job:
    """A new training from step 0, in place of one of whose checkpoints none can be read; those files are kept.

    Raises:
        ActionRefused: the run did not end for that reason, or goes on.
        NotFound, DatasetMissing, SpecInvalid, DiskFull: as ``job_retry``.
    """
    job = job_for(user, job_id)
    if job.verb != "train" or job.error_code != NoCheckpointIntact.code:
        raise ActionRefused(
            f"{job.title} did not end because its checkpoints cannot be read.",
            hint="Start it again, or train again with changes.",
        )
    return job_retry(user, job_id)
