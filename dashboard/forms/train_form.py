"""The training form: a few fields of its own, and one ``CardForm`` each for training, task and model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from django.contrib.auth.models import User
from pydantic import BaseModel, ValidationError

from dashboard.forms.card_form import CardForm, OptionField, as_text, sentence
from dashboard.forms.training_choices import Choices, ModelChoice, StartChoice, refusal_of
from engine.catalog import find_card, model_cards, task_cards
from jobs.planning import Plan, Start, plan_with_reasons
from jobs.requests import CheckpointInit, InitRequest, TrainingRequest
from jobs.selectors import DeviceInfo, JobSummary
from wire.cards import ModelCard, TaskCard
from wire.specs import Choice, FromPublished, FromScratch, Optimiser, TrainOptions

TASK = "classification"
SECTIONS = ("Model", "Images", "Training", "Optimisation", "Device")
"""Their order on the page; groups that a card invents follow."""


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    fields: list[OptionField]

    @property
    def plain(self) -> list[OptionField]:
        return [field for field in self.fields if not field.advanced]

    @property
    def advanced(self) -> list[OptionField]:
        return [field for field in self.fields if field.advanced]

    @property
    def advanced_open(self) -> bool:
        """Whether something in there deserves to be seen."""
        return any(field.modified or field.bound.errors for field in self.advanced)


class TrainForm:
    """What a person has chosen so far, with the defaults that follow from it.

    ``data`` is what the page sent; without it ``start_from`` (a run to repeat) or nothing but the defaults are shown.
    """

    def __init__(
        self,
        user: User,
        *,
        dataset: JobSummary,
        devices: Sequence[DeviceInfo],
        data: Mapping[str, Any] | None = None,
        start_from: TrainingRequest | None = None,
        model: str = "",
    ) -> None:
        self.user = user
        self.dataset = dataset
        self.data = data
        self.start_from = start_from
        self.devices = list(devices)
        meta = dataset.dataset_meta or {}
        self.best_fit = plan_with_reasons(meta, None, self.devices).model
        self.card: ModelCard = find_card(model_cards(), model or self._model_wanted(), what="model")
        self.task: TaskCard = find_card(task_cards(), TASK, what="task")
        wanted = self._start_wanted()
        self.choices = Choices(user, self.card, dataset, start=wanted)
        self.start = wanted if wanted in self.choices.starts else "scratch"
        self.start_problem = "" if self.start == wanted else self._start_refusal(wanted)
        self.planned, self.optimiser_default = self._plan(meta)
        self._bind()

    def _text(self, name: str, otherwise: str = "") -> str:
        return str((self.data or {}).get(name, otherwise))

    def _model_wanted(self) -> str:
        if self.data is not None:
            return self._text("model", self.best_fit)
        return self.start_from.model.name if self.start_from else self.best_fit

    # How the network starts.

    def _start_wanted(self) -> str:
        """``scratch``, ``published:<name>`` or ``checkpoint:<artifact id>``, whether it can be had or not."""
        wanted = "scratch"
        if self.data is not None:
            wanted = self._text("init", wanted)
            if wanted == "checkpoint":
                wanted = f"checkpoint:{self._text('checkpoint')}"
        elif self.start_from:
            init = self.start_from.init
            if isinstance(init, FromPublished):
                wanted = f"published:{init.weights}"
            elif isinstance(init, CheckpointInit):
                wanted = f"checkpoint:{init.artifact}"
        return wanted

    def _start_refusal(self, wanted: str) -> str:
        kind, _, name = wanted.partition(":")
        if kind == "published":
            why = f"{self.card.label} has no published weights {name}."
        elif kind == "checkpoint":
            why = f"Checkpoint #{name} is gone, is none of {self.card.label}, or its run has not ended."
        else:
            why = f"There is no start called {wanted!r}."
        return f"{why} Random weights are marked now: keep them or choose another start."

    @property
    def start_kind(self) -> Start:
        kind = self.start.partition(":")[0]
        return "published" if kind == "published" else "checkpoint" if kind == "checkpoint" else "scratch"

    @property
    def init(self) -> InitRequest:
        _, _, name = self.start.partition(":")
        if self.start_kind == "published":
            return FromPublished(weights=name)
        return CheckpointInit(artifact=int(name)) if self.start_kind == "checkpoint" else FromScratch()

    @property
    def checkpoint_id(self) -> int | None:
        return self.init.artifact if isinstance(self.init, CheckpointInit) else None

    # Defaults.

    @cached_property
    def _earlier_defaults(self) -> dict[str, str]:
        """The defaults that the page showed when it was sent, by field name: what equals them was not chosen."""
        try:
            found = json.loads(self._text("shown_defaults", "{}"))
        except ValueError:
            return {}
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def _chosen(self, name: str) -> str | None:
        """The value of a field that the person changed, None of one left at its default."""
        sent = self._text(name)
        return sent if sent and sent != self._earlier_defaults.get(name) else None

    def _plan(self, meta: Mapping[str, Any]) -> tuple[Plan, str]:
        """The defaults; they follow an optimiser that was chosen by hand, which itself stays a change."""
        plain = plan_with_reasons(meta, self.card, self.devices, start=self.start_kind)
        chosen: str | None = None
        if self.data is not None:
            chosen = self._chosen("options-optimiser")
        elif self.start_from:
            chosen = self.start_from.options.optimiser
        optimiser = next((name for name in get_args(Optimiser) if name == chosen), None)
        if optimiser is None:
            return plain, plain.options.optimiser
        followed = plan_with_reasons(meta, self.card, self.devices, start=self.start_kind, optimiser=optimiser)
        return followed, plain.options.optimiser

    def _bind(self) -> None:
        defaults = self.planned.options.model_dump() | {"optimiser": self.optimiser_default}
        again = self.start_from
        self.options_form = self._card_form(
            TrainOptions, "options", defaults, again.options.model_dump() if again else None, self.planned.reasons
        )
        self.task_form = self._card_form(self.task.options, "task", {}, again.task.options if again else None)
        same_model = again is not None and again.model.name == self.card.name
        self.model_form = self._card_form(
            self.card.options, "model", {}, again.model.options if again and same_model else None
        )
        self.card_forms = (self.model_form, self.options_form, self.task_form)

    def _card_form(
        self,
        options: type[BaseModel],
        prefix: str,
        defaults: Mapping[str, Any],
        values: Mapping[str, Any] | None,
        reasons: Mapping[str, str] | None = None,
    ) -> CardForm:
        form = CardForm(options, prefix=prefix, values=values, defaults=defaults, reasons=reasons)
        if self.data is None:
            return form
        # Fields left at the old default move to the new one; fields that the page did not have yet begin there.
        sent: dict[str, Any] = {}
        for name, default in form.defaults.items():
            key = f"{prefix}-{name}"
            untouched = self._text(key) == self._earlier_defaults.get(key) or key not in self.data
            sent[key] = as_text(default) if untouched else self._text(key)
        return CardForm(options, prefix=prefix, data=sent, defaults=defaults, reasons=reasons)

    # What the page shows.

    @cached_property
    def sections(self) -> dict[str, Section]:
        groups: dict[str, list[OptionField]] = {name: [] for name in SECTIONS}
        for form in self.card_forms:
            for field in form.option_fields:
                groups.setdefault(field.group, []).append(field)
        return {name: Section(name, fields) for name, fields in groups.items()}

    @property
    def other_sections(self) -> list[Section]:
        return [section for name, section in self.sections.items() if name not in SECTIONS]

    @property
    def shown_defaults(self) -> str:
        return json.dumps(
            {field.bound.html_name: field.default for form in self.card_forms for field in form.option_fields}
        )

    @cached_property
    def image_px_chosen(self) -> int | None:
        """The image size, where a person has set it: then it is the models that must fit."""
        field = next(field for field in self.options_form.option_fields if field.bound.name == "image_px")
        return int(field.value) if field.modified and field.value.isdecimal() else None

    @property
    def models(self) -> list[ModelChoice]:
        return self.choices.models(self.image_px_chosen, recommended=self.best_fit)

    @property
    def starts(self) -> list[StartChoice]:
        return self.choices.start_choices(self.start)

    @property
    def title(self) -> str:
        return self._text("title", self.start_from.title if self.start_from else "")

    @property
    def notes(self) -> str:
        return self._text("notes", self.start_from.notes if self.start_from else "")

    @property
    def private(self) -> bool:
        return "private" in self.data if self.data is not None else bool(self.start_from and self.start_from.private)

    @property
    def retry_of(self) -> int | None:
        sent = self._text("retry_of")
        if sent.isdecimal():
            return int(sent)
        return self.start_from.retry_of if self.start_from else None

    # Where it runs.

    @cached_property
    def _device_wanted(self) -> str:
        if self.data is not None:
            return self._text("device")
        return self.start_from.devices[0] if self.start_from else "any"

    @cached_property
    def device(self) -> str:
        """``any``, ``cpu`` where no processor has reported, or a UUID; empty where what was asked for is not there."""
        usable = [device for device in self.devices if not device.drained]
        if self._device_wanted == "cpu":
            return next((device.uuid for device in usable if device.kind == "cpu"), "cpu")
        return self._device_wanted if self._device_wanted in {"any", *(device.uuid for device in usable)} else ""

    @property
    def device_problem(self) -> str:
        if self.device:
            return ""
        wanted = self._device_wanted
        return f"Device {wanted} is gone or taken out of service. Choose another." if wanted else "Choose a device."

    # What comes of it.

    def is_valid(self) -> bool:
        if self.data is None:
            return not self.device_problem
        valid = all(form.is_valid() for form in self.card_forms) and not self.device_problem
        valid = valid and not self.start_problem
        if valid and (refusal := refusal_of(self.card, self.options_form.cleaned_data["image_px"])):
            self.options_form.add_error("image_px", refusal)
            return False
        return valid

    @property
    def problems(self) -> list[str]:
        """Errors that belong to no single field."""
        return [str(text) for form in self.card_forms for text in form.non_field_errors()]

    def request(self) -> TrainingRequest | None:
        """The request that "Start training" sends, None while a field is wrong. Also marks the fields."""
        if not self.is_valid():
            return None
        try:
            return TrainingRequest(
                title=self.title,
                dataset=self.dataset.id,
                model=Choice(name=self.card.name, options=self._options(self.model_form)),
                task=Choice(name=self.task.name, options=self._options(self.task_form)),
                init=self.init,
                options=TrainOptions.model_validate(self._options(self.options_form)),
                devices=[self.device],
                private=self.private,
                notes=self.notes,
                retry_of=self.retry_of,
            )
        except ValidationError as error:
            for problem in error.errors():
                self.options_form.add_error(None, sentence(problem))
            return None

    @staticmethod
    def _options(form: CardForm) -> dict[str, Any]:
        if form.options is not None:
            return form.options.model_dump(mode="json")
        shown = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
        return form.model.model_validate(shown).model_dump(mode="json")
