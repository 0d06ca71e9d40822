"""The form that exports a run: which checkpoint, to which targets, how they are calibrated and verified."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, get_args

from django.contrib.auth.models import User
from django.http import QueryDict
from pydantic import BaseModel

from dashboard.addresses import id_of
from dashboard.forms.card_form import CardForm
from dashboard.forms.train_form import Section
from engine.catalog import backend_cards
from jobs.access import visible_jobs
from jobs.checkpoints import checkpoint_chosen
from jobs.lineage import dataset_trained_on
from jobs.models import Job
from jobs.requests import ExportRequest, ExportTarget
from jobs.selectors import ArtifactInfo, DeviceInfo, JobSummary, artifacts_of, datasets_of, devices_list
from jobs.services.exports import how_to_install, why_missing
from jobs.states import ENDED, Status
from wire.cards import BackendCard
from wire.errors import FoveaError
from wire.specs import CalibrationOptions, Choice, ExportPrecision, VerificationOptions

PRECISION_LABELS: Final[dict[ExportPrecision, str]] = {"fp32": "FP32", "fp16": "FP16", "int8": "INT8"}
Options = TypeVar("Options", bound=BaseModel)
USUAL_TARGETS: Final = ("pytorch:fp32", "onnx:fp32", "onnx:fp16", "onnx:int8")


@dataclass(frozen=True, slots=True)
class TargetBox:
    value: str
    label: str
    checked: bool


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """A row of the grid of targets."""

    card: BackendCard
    boxes: list[TargetBox | None]
    """One for each precision there is; None where the backend has it not."""
    options: CardForm

    @property
    def missing(self) -> str:
        """Why it cannot be chosen and what to do about it; empty where it can."""
        return f"Not installed here: {why_missing(self.card)}. {how_to_install(self.card)}" if self.card.missing else ""

    @property
    def chosen(self) -> list[TargetBox]:
        return [box for box in self.boxes if box and box.checked]

    @property
    def section(self) -> Section:
        return Section(self.card.label, self.options.option_fields)


@dataclass(frozen=True, slots=True)
class DatasetChoice:
    id: int
    title: str
    is_own: bool
    """The one that the run was trained on."""
    verified_on: str
    """``359 validation images``; empty where it has none that nothing was learnt from."""


class ExportForm:
    """What a person has filled in so far; ``data`` is what the page sent."""

    def __init__(self, user: User, run: Job, data: QueryDict | None = None) -> None:
        self.user = user
        self.run = run
        self.data = data
        self.errors: dict[str, str] = {}
        self.refusal: FoveaError | None = None
        self.calibration = self._card_form(CalibrationOptions, "calibration")
        self.verification = self._card_form(VerificationOptions, "verification")
        self.backends = [self._backend(card) for card in backend_cards().values()]

    def _card_form(self, options: type[BaseModel], prefix: str) -> CardForm:
        is_sent = self.data is not None and any(key.startswith(f"{prefix}-") for key in self.data)
        return CardForm(options, prefix=prefix, data=self.data if is_sent else None)

    def _backend(self, card: BackendCard) -> BackendChoice:
        wanted = USUAL_TARGETS if self.data is None else self.data.getlist("target")
        boxes = [
            TargetBox(name, PRECISION_LABELS[precision], checked=name in wanted and not card.missing)
            if precision in card.precisions
            else None
            for precision in get_args(ExportPrecision)
            for name in [f"{card.name}:{precision}"]
        ]
        return BackendChoice(card, boxes, self._card_form(card.options, f"backend-{card.name}"))

    # What the page shows.

    @property
    def precisions(self) -> list[str]:
        return list(PRECISION_LABELS.values())

    @property
    def n_targets(self) -> int:
        return sum(len(backend.chosen) for backend in self.backends)

    @property
    def run_ended(self) -> bool:
        return Status(self.run.status) in ENDED

    @cached_property
    def checkpoints(self) -> list[ArtifactInfo]:
        """Newest first."""
        kept = [each for each in artifacts_of(self.run) if each.kind == "checkpoint"]
        return sorted(kept, key=lambda each: (each.meta.get("step") or 0, each.id), reverse=True)

    @cached_property
    def usual_checkpoint(self) -> str:
        """What is taken where none is chosen."""
        chosen = checkpoint_chosen(self.run)
        if chosen is None:
            return "The best when the training has ended"
        if not self.run_ended:
            return "The best when the training has ended"
        return f"{chosen.artifact.name}: {chosen.why[:1].lower()}{chosen.why[1:]}"

    @property
    def checkpoint(self) -> str:
        return self._text("checkpoint")

    @cached_property
    def datasets(self) -> list[DatasetChoice]:
        """Those that share a class with the run, its own first."""
        trained_on = dataset_trained_on(self.run)
        own = trained_on.made_by_id if trained_on else None
        known = set(self.checkpoints[0].meta.get("classes", ())) if self.checkpoints else set()
        rows = [row for row in datasets_of(self.user, status=Status.SUCCEEDED) if row.dataset_meta]
        fitting = [row for row in rows if row.id == own or known & set((row.dataset_meta or {}).get("classes", ()))]
        return sorted((_dataset_choice(row, own) for row in fitting), key=lambda each: not each.is_own)

    @property
    def dataset(self) -> DatasetChoice | None:
        """The one that is chosen; at first the run's own, or else the next best."""
        wanted = id_of(self._text("dataset"))
        return next((each for each in self.datasets if each.id == wanted), next(iter(self.datasets), None))

    @property
    def own_is_hidden(self) -> bool:
        """The run may be seen by more people than the images it learnt from."""
        trained_on = dataset_trained_on(self.run)
        if trained_on is None or trained_on.made_by.trashed_at is not None:
            return False
        return not visible_jobs(self.user).filter(pk=trained_on.made_by_id).exists()

    @cached_property
    def devices(self) -> list[DeviceInfo]:
        """GPUs; the processor is offered whether it has reported or not."""
        return [device for device in devices_list(self.user) if device.kind == "cuda" and not device.drained]

    @property
    def device(self) -> str:
        return self._text("device") or "cpu"

    @property
    def why_not(self) -> tuple[str, str] | None:
        """Why nothing can be exported, and what to do about it."""
        if not self.run_ended:
            return None
        if not self.checkpoints:
            return (
                "This run kept no checkpoint, so there is nothing to export.",
                "Train again; the first is saved after one epoch.",
            )
        if not self.datasets:
            why = "is private" if self.own_is_hidden else "is not there any more"
            return (
                f"The dataset of this run {why}, so an export could not be verified.",
                "Import a dataset with the same classes; it is then offered here.",
            )
        return None

    @property
    def calibration_section(self) -> Section:
        return Section("INT8 calibration", self.calibration.option_fields)

    @property
    def verification_section(self) -> Section:
        return Section("Verification", self.verification.option_fields)

    # What was asked for.

    def request(self) -> ExportRequest | None:
        """None where something is wrong; the errors then stand beside their fields."""
        targets = self._targets()
        checkpoint = self._checked_id("checkpoint", {each.id for each in self.checkpoints})
        dataset = self._checked_id("dataset", {each.id for each in self.datasets})
        device = self._checked_device()
        calibration = self._options(self.calibration, CalibrationOptions)
        verification = self._options(self.verification, VerificationOptions)
        if self.errors or not targets or calibration is None or verification is None:
            return None
        return ExportRequest(
            targets=tuple(targets),
            checkpoint=checkpoint,
            dataset=None if self.dataset and self.dataset.is_own else dataset,
            calibration=calibration,
            verification=verification,
            devices=(device,),
        )

    def refuse(self, error: FoveaError) -> None:
        self.refusal = error

    def _text(self, name: str) -> str:
        return "" if self.data is None else str(self.data.get(name, ""))

    def _targets(self) -> list[ExportTarget]:
        targets: list[ExportTarget] = []
        for backend in self.backends:
            if not backend.chosen:
                continue
            options = self._options(backend.options, backend.card.options)
            if options is None:
                self.errors["backend"] = f"Mend the options of {backend.card.label}."
                continue
            choice = Choice(name=backend.card.name, options=options.model_dump(mode="json"))
            for box in backend.chosen:
                precision = next(each for each in backend.card.precisions if box.value.endswith(f":{each}"))
                targets.append(ExportTarget(backend=choice, precision=precision))
        if not targets and not self.errors:
            self.errors["targets"] = "Choose at least one target."
        return targets

    def _checked_id(self, name: str, offered: set[int]) -> int | None:
        text = self._text(name)
        if not text:
            return None
        found = id_of(text)
        if found not in offered:
            self.errors[name] = "It is not there any more; choose another one."
        return found

    def _checked_device(self) -> str:
        if self.device not in {"cpu", "any", *(device.uuid for device in self.devices)}:
            self.errors["device"] = "This device is gone or taken out of service; choose another one."
        return self.device

    @staticmethod
    def _options(form: CardForm, kind: type[Options]) -> Options | None:
        """None where a field is wrong; the defaults where nothing was sent."""
        if not form.is_bound:
            return kind()
        return form.options if form.is_valid() and isinstance(form.options, kind) else None


def _dataset_choice(row: JobSummary, own: int | None) -> DatasetChoice:
    counts = (row.dataset_meta or {}).get("counts", {})
    labels = {"val": "validation", "test": "test"}
    found = next(((counts[split], label) for split, label in labels.items() if counts.get(split)), None)
    verified_on = f"{found[0]:,} {found[1]} images" if found else ""
    return DatasetChoice(row.id, row.title, row.id == own, verified_on)
