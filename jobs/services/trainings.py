"""Trainings, from a request to a row: everything is checked here, so that the engine meets a spec it can do."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from engine.catalog import find_card, model_cards, task_cards
from jobs import transitions
from jobs.access import job_for, visible_jobs
from jobs.doorbell import ring_on_commit
from jobs.lineage import dataset_job_id, dataset_spec_path
from jobs.models import Artifact, Job, JobInput
from jobs.requests import CheckpointInit, InitRequest, TrainingRequest
from jobs.room import check_disk_room
from jobs.services.checks import checked_choice, checked_devices
from jobs.states import ENDED, Status
from jobs.storage import storage
from jobs.submissions import submitted_once
from wire.cards import ModelCard
from wire.errors import ActionRefused, DatasetMissing, NotFound, SpecInvalid
from wire.specs import (
    FromCheckpoint,
    FromPublished,
    FromScratch,
    Init,
    TrainOptions,
    TrainSpec,
)


@submitted_once
def training_submit(owner: User, request: TrainingRequest) -> Job:
    """Queue a training, or let it wait for a dataset that is still being imported.

    Raises:
        NotFound: the dataset, the checkpoint or the run to repeat is not there for this user.
        SpecInvalid: model, task, options, weights or device do not exist or do not fit together.
        DatasetMissing: the import of the dataset did not succeed.
        ActionRefused: more devices than one.
        DiskFull: there would be no room for its checkpoints.
    """
    check_disk_room(0, what="another training")
    source = _dataset_of(owner, request.dataset)
    spec, checkpoint = _training_spec(owner, request, source)
    dataset = Artifact.objects.filter(made_by=source, kind="dataset", trashed_at=None).first()
    ready = source.status == Status.SUCCEEDED and dataset is not None
    job = transitions.begin(
        status=Status.QUEUED if ready else Status.WAITING,
        reason=f"submitted by {owner.username}",
        verb="train",
        spec=spec.model_dump(mode="json"),
        title=request.title.strip() or f"{model_cards()[spec.model.name].label} on {source.title}"[:200],
        notes=request.notes,
        owner=owner,
        # Its title, its log and its pictures tell of the dataset.
        private=request.private or source.private,
        wants=request.devices,
        wait_reason="" if ready else f"Waiting for the dataset {source.title} to be imported"[:300],
        retry_of=None if request.retry_of is None else job_for(owner, request.retry_of),
    )
    if ready and dataset is not None:
        JobInput.objects.create(job=job, artifact=dataset, role="dataset")
    if checkpoint is not None:
        JobInput.objects.create(job=job, artifact=checkpoint, role="checkpoint")
    ring_on_commit()
    return job


def training_spec(owner: User, request: TrainingRequest) -> TrainSpec:
    """The spec that submitting this request would write.

    Raises:
        UserError: what submitting would raise.
    """
    return _training_spec(owner, request, _dataset_of(owner, request.dataset))[0]


def _training_spec(owner: User, request: TrainingRequest, source: Job) -> tuple[TrainSpec, Artifact | None]:
    """The spec, and the checkpoint that it begins from."""
    card = find_card(model_cards(), request.model.name, what="model")
    _check_size(card, request.options.image_px)
    init, checkpoint = _resolve_init(owner, request.init, card)
    spec = TrainSpec(
        dataset=dataset_spec_path(source.pk),
        task=checked_choice(request.task, find_card(task_cards(), request.task.name, what="task")),
        model=checked_choice(request.model, card),
        init=init,
        options=request.options,
        device=checked_devices(request.devices, what="a training"),
    )
    return spec, checkpoint


def _dataset_of(owner: User, import_id: int) -> Job:
    source = job_for(owner, import_id)
    if source.verb != "import":
        raise SpecInvalid(f"#{source.pk} ({source.title}) is a run, not a dataset.", hint="Choose a dataset.")
    if Status(source.status) in ENDED - {Status.SUCCEEDED}:
        raise DatasetMissing(
            f"The dataset {source.title} was not imported: its import is {source.status}.",
            hint="Import it again, then train on the new one.",
        )
    return source


def _check_size(card: ModelCard, image_px: int) -> None:
    if image_px < card.min_px:
        raise SpecInvalid(
            f"{card.label} needs images of at least {card.min_px} px; {image_px} px were asked for.",
            hint=f"Set the image size to {card.min_px} px or more, or choose a smaller network.",
        )


def _resolve_init(owner: User, init: InitRequest, card: ModelCard) -> tuple[Init, Artifact | None]:
    if isinstance(init, FromPublished):
        names = [weights.name for weights in card.weights]
        if init.weights not in names:
            raise SpecInvalid(
                f"{card.label} has no published weights called {init.weights!r}.",
                hint=f"Choose one of: {', '.join(names)}." if names else "Train it from scratch.",
            )
        return init, None
    if isinstance(init, CheckpointInit):
        checkpoint = _checkpoint_for(owner, init.artifact, card)
        return FromCheckpoint(path=storage().input_path(checkpoint.made_by_id, checkpoint.path)), checkpoint
    return init, None


def _checkpoint_for(owner: User, artifact_id: int, card: ModelCard) -> Artifact:
    checkpoint = (
        Artifact.objects.filter(pk=artifact_id, kind="checkpoint", trashed_at=None, made_by__in=visible_jobs(owner))
        .select_related("made_by")
        .first()
    )
    if checkpoint is None:
        raise NotFound(f"There is no checkpoint #{artifact_id}.", hint="Choose one from the page of a run.")
    if Status(checkpoint.made_by.status) not in ENDED:
        raise ActionRefused(
            f"{checkpoint.made_by.title} has not ended: it may still replace its checkpoint {checkpoint.name}.",
            hint="Wait until it has ended, or cancel it.",
        )
    trained = checkpoint.made_by.spec["model"]["name"]
    if trained != card.name:
        raise SpecInvalid(
            f"Checkpoint {checkpoint.name} of {checkpoint.made_by.title} is a {trained}, not a {card.name}.",
            hint=f"Choose the model {trained}, or another checkpoint.",
        )
    return checkpoint


def training_request_of(job: Job) -> TrainingRequest:
    """The request that would make this training again, to be changed and submitted.

    Raises:
        ActionRefused: the job is not a training.
    """
    if job.verb != "train":
        raise ActionRefused(f"{job.title} is not a training.", hint="Choose a run.")
    spec = TrainSpec.model_validate(job.spec)
    dataset = dataset_job_id(job.spec)
    if dataset is None:
        raise SpecInvalid(f"The spec of {job.title} names no dataset of this server.", hint="Choose a dataset.")
    return TrainingRequest(
        title=job.title,
        dataset=dataset,
        model=spec.model,
        task=spec.task,
        init=_init_request(job, spec.init),
        options=TrainOptions.model_validate(spec.options),
        devices=list(job.wants) or ["any"],
        private=job.private,
        notes=job.notes,
        retry_of=job.pk,
    )


def _init_request(job: Job, init: Any) -> InitRequest:
    if isinstance(init, FromPublished):
        return init
    checkpoint = job.inputs.filter(role="checkpoint").first()
    return FromScratch() if checkpoint is None else CheckpointInit(artifact=checkpoint.artifact_id)
