"""The training form: shown, kept true while it is filled in, and sent."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.addresses import id_of
from dashboard.forms.train_form import TrainForm
from dashboard.previews import N_EXAMPLES, Look, PreviewError, pictures_of
from dashboard.visitor import SignedIn
from jobs.access import job_for
from jobs.planning import DatasetFacts
from jobs.requests import CheckpointInit, TrainingRequest
from jobs.selectors import JobSummary, checkpoints_of, datasets_of, devices_list
from jobs.services import training_request_of, training_spec, training_submit
from jobs.states import Status
from jobs.storage import storage
from wire.errors import DiskFull, NotFound, UserError


@dataclass(frozen=True, slots=True)
class Forecast:
    """What will happen when the form is sent."""

    n_steps: int
    n_steps_per_epoch: int
    n_images: int
    device: str


@require_http_methods(["GET", "POST"])
def run_new(request: SignedIn) -> HttpResponse:
    form = _form(request)
    if form is None:
        return render(request, "training/no_dataset.html", {"nav": "home", "datasets": datasets_of(request.user)})
    refusal: UserError | DiskFull | None = None
    if request.method == "POST" and (wish := form.request()):
        try:
            return redirect("run", training_submit(request.user, wish).pk)
        except (UserError, DiskFull) as error:
            refusal = error
    status = 422 if request.method == "POST" else 200
    return render(request, "training/new.html", _context(request, form) | {"refusal": refusal}, status=status)


@require_POST
def form_body(request: SignedIn) -> HttpResponse:
    """All fields anew: after a choice that others depend on (dataset, model, start, optimiser, image size)."""
    return render(request, "training/body.html", _context(request, _sent_form(request)))


@require_POST
def panel(request: SignedIn) -> HttpResponse:
    """Forecast, command and spec, and the error of each field."""
    return render(request, "training/panel.html", _context(request, _sent_form(request)) | {"with_errors": True})


@require_POST
def previews(request: SignedIn) -> HttpResponse:
    """Some images of the dataset as the network will see them."""
    form = _sent_form(request)
    wish = form.request()
    if wish is None:
        return render(request, "training/previews.html", {"error": "Mend the marked fields to see examples."})
    try:
        tiles = pictures_of(form.dataset.id, Look.of_training(wish.options), n=N_EXAMPLES)
    except PreviewError as error:
        return render(request, "training/previews.html", {"error": str(error)})
    return render(request, "training/previews.html", {"tiles": tiles})


@require_GET
def device_loads(request: SignedIn) -> HttpResponse:
    """The load of each device, to be put in its place beside the choice."""
    return render(request, "training/device_loads.html", {"devices": devices_list(request.user), "oob": True})


def _ready_datasets(request: SignedIn) -> list[JobSummary]:
    return [row for row in datasets_of(request.user) if row.status == Status.SUCCEEDED and row.dataset_meta]


def _sent_form(request: SignedIn) -> TrainForm:
    """The form of a page that is open.

    Raises:
        NotFound: its dataset has been deleted meanwhile.
    """
    form = _form(request)
    if form is None:
        raise NotFound("The dataset of this form is gone.", hint="Choose another one.")
    return form


def _form(request: SignedIn) -> TrainForm | None:
    """The form as sent or as asked for by the address; None while there is no dataset to train on."""
    ready = _ready_datasets(request)
    if not ready:
        return None
    devices = devices_list(request.user)
    if request.method == "POST":
        dataset = _named(ready, request.POST.get("dataset", ""))
        return TrainForm(request.user, dataset=dataset, devices=devices, data=request.POST.dict())
    start_from = _start_from(request)
    wanted = request.GET.get("dataset") or (str(start_from.dataset) if start_from else "")
    return TrainForm(
        request.user,
        dataset=_named(ready, wanted) if wanted else ready[0],
        devices=devices,
        start_from=start_from,
        model=request.GET.get("model", ""),
    )


def _named(ready: list[JobSummary], wanted: str) -> JobSummary:
    found = next((row for row in ready if str(row.id) == wanted), None)
    if found is None:
        hint = "It may be still on its way in, have failed, or been deleted. Choose another one on the home page."
        raise NotFound(f"There is no dataset #{wanted} to train on.", hint=hint)
    return found


def _start_from(request: SignedIn) -> TrainingRequest | None:
    """The run to repeat (``again``), or the run whose checkpoint to go on from (``from``)."""
    again, checkpoint = id_of(request.GET.get("again", "")), id_of(request.GET.get("from", ""))
    if again is not None:
        return training_request_of(job_for(request.user, again))
    if checkpoint is None:
        return None
    made = next((each for each in checkpoints_of(request.user) if each.id == checkpoint), None)
    if made is None:
        raise NotFound(f"There is no checkpoint #{checkpoint}.", hint="Choose one on the page of a run.")
    earlier = training_request_of(job_for(request.user, made.job.id))
    changes = {"init": CheckpointInit(artifact=made.id), "title": "", "notes": "", "retry_of": None}
    return earlier.model_copy(update=changes)


def _context(request: SignedIn, form: TrainForm) -> dict[str, object]:
    wish = form.request()
    spec, refusal = "", None
    if wish is not None:
        try:
            spec = training_spec(request.user, wish).model_dump_json(indent=2)
        except UserError as error:
            refusal = error
    return {
        "nav": "home",
        "form": form,
        "datasets": _ready_datasets(request),
        "forecast": _forecast(form, wish) if wish else None,
        "spec": spec,
        "command": f"python -m engine train --dir {storage().jobs_dir / '<id>'}",
        "refusal": refusal,
    }


def _forecast(form: TrainForm, wish: TrainingRequest) -> Forecast:
    n_train = DatasetFacts.of(form.dataset.dataset_meta or {}).n_train
    n_steps_per_epoch = ceil(n_train / wish.options.batch_size)
    names = {device.uuid: device.name for device in form.devices}
    names |= {"any": "the first free device", "cpu": "the processor"}
    return Forecast(
        n_steps=n_steps_per_epoch * wish.options.epochs,
        n_steps_per_epoch=n_steps_per_epoch,
        n_images=n_train * wish.options.epochs,
        device=names[form.device],
    )
