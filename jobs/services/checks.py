"""What every request is checked for before it becomes a job: options of cards, devices, the dataset of a part."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import User
from pydantic import BaseModel, ValidationError

from jobs.access import job_for
from jobs.devices import present
from jobs.lineage import dataset_trained_on
from jobs.models import Artifact, Device, Job
from jobs.states import Status
from wire.cards import Card
from wire.errors import ActionRefused, DatasetMissing, NotFound, SpecInvalid
from wire.specs import Choice
from wire.specs.train import Device as WireDevice


def checked_choice(choice: Choice, card: Card) -> Choice:
    """The choice with every option that its card declares.

    Raises:
        SpecInvalid: an option that the card does not know, or a value that it does not take.
    """
    try:
        options: BaseModel = card.options.model_validate(choice.options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join(card.options.model_fields) or "none"
        what = f"{f'option {where}: ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
        raise SpecInvalid(f"{card.label}: {what}.", hint=f"Options of {card.label}: {known}.") from None
    return Choice(name=card.name, options=options.model_dump(mode="json"))


def checked_devices(wanted: Sequence[str], *, what: str) -> WireDevice:
    """How a spec names what is wanted: ``any``, ``cpu``, or the UUID of a device that is there.

    Raises:
        ActionRefused: more devices than one; ``what`` uses one.
        SpecInvalid: no such device, or it is gone.
    """
    if len(wanted) != 1:
        raise ActionRefused(
            f"{len(wanted)} devices were asked for; {what} uses one in this version.", hint="Choose one device."
        )
    if list(wanted) == ["any"]:
        return "auto"
    if list(wanted) == ["cpu"]:
        return "cpu"
    devices = {device.uuid: device for device in Device.objects.order_by("uuid")}
    usable = {device.uuid for device in present(devices.values())}
    hint = f"Choose one of: {', '.join(['any', 'cpu', *sorted(usable)])}."
    device = devices.get(wanted[0])
    if device is None:
        raise SpecInvalid(f"There is no device {wanted[0]!r}.", hint=hint)
    if device.uuid not in usable:
        raise SpecInvalid(
            f"{device.name} on {device.host} is gone; it was last seen {device.seen_at:%Y-%m-%d %H:%M} UTC.", hint=hint
        )
    return "cuda" if device.kind == "cuda" else "cpu"


def dataset_of_part(user: User, run: Job, import_id: int | None) -> Artifact:
    """What a part of the run reads: the dataset that is named, else the one that the run was trained on.

    Raises:
        NotFound: it is not there for this user.
        DatasetMissing: it is gone, or was not imported.
    """
    if import_id is None:
        dataset = dataset_trained_on(run)
        if dataset is None:
            raise DatasetMissing(f"The dataset of {run.title} is not there any more.", hint="Choose another dataset.")
        # The run may be seen by more people than its dataset.
        job_for(user, dataset.made_by_id)
        return dataset
    source = job_for(user, import_id)
    if source.verb != "import":
        raise NotFound(f"#{import_id} ({source.title}) is not a dataset.", hint="Choose a dataset.")
    made = Artifact.objects.filter(made_by=source, kind="dataset", trashed_at=None).select_related("made_by").first()
    if source.status != Status.SUCCEEDED or made is None:
        raise DatasetMissing(
            f"The dataset {source.title} is not there: its import is {source.status}.",
            hint="Wait until it is imported, or choose another one.",
        )
    return made


def check_classes(trained: Artifact, dataset: Artifact) -> None:
    """Whether the dataset has a class that the run knows, by the run's checkpoint or its own dataset.

    The engine scores by class name; where no name is shared every answer would be wrong.

    Both lists are cut at 1,000 classes in what the artifacts tell, so longer ones are left to the engine.

    Raises:
        SpecInvalid: it has none.
    """
    known, asked = (set(artifact.meta.get("classes", ())) for artifact in (trained, dataset))
    is_whole = all(
        artifact.meta.get("n_classes") == len(artifact.meta.get("classes", ())) for artifact in (trained, dataset)
    )
    if is_whole and not known & asked:
        examples = ", ".join(sorted(asked)[:3])
        raise SpecInvalid(
            f"The dataset {dataset.made_by.title} shares no class with the run: it has {examples}.",
            hint="Choose a dataset with the classes that the run was trained on.",
        )
