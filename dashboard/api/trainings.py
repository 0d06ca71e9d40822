from __future__ import annotations

from ninja import Router, Schema, Status

from dashboard.api.bodies import answers
from dashboard.previews import N_EXAMPLES, Look, Tile, pictures_of
from dashboard.visitor import SignedIn
from engine.catalog import find_card, model_cards
from jobs.access import job_for
from jobs.planning import Start, plan_with_reasons
from jobs.requests import TrainingRequest
from jobs.selectors import JobSummary, devices_list, job_summary
from jobs.services import training_spec, training_submit
from wire.errors import ActionRefused
from wire.specs import Choice, Optimiser, TrainSpec

router = Router()


class TrainingDefaults(Schema):
    request: TrainingRequest
    """May be sent to `/trainings` as it is."""
    reasons: dict[str, str]
    """Option -> why it has this value."""


@router.post("", response=answers(JobSummary, status=201), summary="Train")
def training_start(request: SignedIn, wish: TrainingRequest) -> Status[JobSummary]:
    return Status(201, job_summary(training_submit(request.user, wish), request.user))


@router.post("/spec", response=answers(TrainSpec), summary="The spec of a request")
def training_spec_told(request: SignedIn, wish: TrainingRequest) -> TrainSpec:
    """The `spec.json` that sending this to `/trainings` would write; nothing is started."""
    return training_spec(request.user, wish)


@router.post("/previews", response=answers(list[Tile]), summary="Examples as the network will see them")
def training_previews(request: SignedIn, wish: TrainingRequest) -> list[Tile]:
    """Some images of the dataset, resized and augmented as the request says; the first time this takes seconds."""
    training_spec(request.user, wish)
    return pictures_of(wish.dataset, Look.of_training(wish.options), n=N_EXAMPLES)


@router.get("/defaults", response=answers(TrainingDefaults), summary="Defaults for a dataset")
def training_defaults(
    request: SignedIn, dataset: int, model: str = "", start: Start = "scratch", optimiser: Optimiser | None = None
) -> TrainingDefaults:
    """What to train this dataset with; without `model` the dataset chooses that too."""
    job = job_for(request.user, dataset)
    made = job.artifacts.filter(kind="dataset", trashed_at=None).first()
    if made is None:
        raise ActionRefused(f"{job.title} has no images yet.", hint="Wait until its import has succeeded.")
    card = find_card(model_cards(), model, what="model") if model else None
    plan = plan_with_reasons(made.meta, card, devices_list(request.user), start=start, optimiser=optimiser)
    wish = TrainingRequest(dataset=dataset, model=Choice(name=plan.model), options=plan.options)
    return TrainingDefaults(request=wish, reasons=plan.reasons)
