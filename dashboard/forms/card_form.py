"""A form made from the options of a card, so that form, API and command line can never disagree about a bound."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import annotated_types
from django import forms
from django.forms import BoundField
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

OTHER_GROUP = "Options"


@dataclass(frozen=True, slots=True)
class Check:
    """One box of an option that takes several of a list."""

    id: str
    value: str
    label: str
    checked: bool


@dataclass(frozen=True, slots=True)
class OptionField:
    """One field as the templates show it."""

    bound: BoundField
    help: str
    unit: str
    group: str
    advanced: bool
    default: str
    reason: str
    """Why the default is what it is, in a sentence."""

    @property
    def value(self) -> str:
        return as_text(self.bound.value())

    @property
    def default_label(self) -> str:
        """The default as a person reads it: of a choice its label."""
        labels = dict(getattr(self.bound.field, "choices", ()))
        return str(labels.get(self.default, self.default)).partition(":")[0]

    @property
    def modified(self) -> bool:
        return self.value != self.default

    @property
    def checks(self) -> list[Check]:
        """Of an option that takes several of a list: a box for each; of any other none."""
        if not isinstance(self.bound.field, ChecksField):
            return []
        chosen = self.value.split("\n")
        offered = cast("Iterable[tuple[str, str]]", self.bound.field.choices)
        return [
            Check(f"{self.bound.id_for_label}-{n}", value, label, value in chosen)
            for n, (value, label) in enumerate(offered)
        ]

    @property
    def described_by(self) -> str:
        """Ids of the help and of the error, for ``aria-describedby``."""
        return f"{self.bound.id_for_label}-help {self.bound.id_for_label}-error"


class CardForm(forms.Form):
    """Fields from a pydantic model; the model itself validates, and its complaints stand beside the fields."""

    def __init__(
        self,
        model: type[BaseModel],
        *,
        prefix: str,
        data: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        """Make the form.

        Args:
            model: the options of a card.
            prefix: of the names in the page.
            data: what was sent; None shows ``values``.
            values: what an unsent form shows; the defaults where it says nothing.
            defaults: what "reset" goes back to and "modified" compares with; the model's own where it says nothing.
            reasons: a sentence for each default.
        """
        self.model = model
        self.defaults = {name: info.get_default(call_default_factory=True) for name, info in _fields(model)}
        self.defaults.update(defaults or {})
        self.reasons = dict(reasons or {})
        self.options: BaseModel | None = None
        shown = {name: _initial(value) for name, value in {**self.defaults, **(values or {})}.items()}
        super().__init__(data, prefix=prefix, initial=shown)
        for name, info in _fields(model):
            self.fields[name] = form_field(info)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            self.options = self.model.model_validate(cleaned)
        except ValidationError as error:
            for problem in error.errors():
                where = str(problem["loc"][0]) if problem["loc"] else None
                self.add_error(where if where in self.fields else None, sentence(problem))
        return cleaned

    @cached_property
    def option_fields(self) -> list[OptionField]:
        return [self._option_field(name, info) for name, info in _fields(self.model)]

    def _option_field(self, name: str, info: FieldInfo) -> OptionField:
        extra = ui(info)
        bound = self[name]
        field = OptionField(
            bound=bound,
            help=info.description or "",
            unit=extra.get("unit", ""),
            group=extra.get("group") or OTHER_GROUP,
            advanced=bool(extra.get("advanced")),
            default=as_text(self.defaults[name]),
            reason=self.reasons.get(name, ""),
        )
        attributes = bound.field.widget.attrs
        attributes |= {"data-default": field.default, "aria-describedby": field.described_by}
        if bound.errors:
            attributes["aria-invalid"] = "true"
        return field


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, FieldInfo]]:
    return model.model_fields.items()


def ui(info: FieldInfo) -> dict[str, Any]:
    extra = info.json_schema_extra
    return dict(extra) if isinstance(extra, dict) else {}


def form_field(info: FieldInfo) -> forms.Field:
    """The form field of an option.

    Raises:
        TypeError: of a type that no field exists for; a card with such an option cannot be shown.
    """
    kind = _without_none(info.annotation)
    label = info.title
    is_needed = kind is info.annotation
    if get_origin(kind) is Literal:
        widget = forms.Select(attrs={"class": "select"})
        return forms.ChoiceField(label=label, choices=_choices(kind, info), widget=widget)
    if kind is bool:
        return forms.BooleanField(label=label, required=False)
    if kind is int:
        attributes = {"step": "1", "inputmode": "numeric", **_bounds(info)}
        return forms.IntegerField(label=label, required=is_needed, widget=_number(attributes))
    if kind is float:
        attributes = {"step": "any", "inputmode": "decimal", **_bounds(info)}
        return forms.FloatField(label=label, required=is_needed, widget=_number(attributes))
    if kind is str:
        return forms.CharField(label=label, required=False, widget=forms.TextInput(attrs={"class": "input"}))
    if get_origin(kind) is tuple and get_args(kind)[1:] == (Ellipsis,):
        each = get_args(kind)[0]
        is_chosen = get_origin(each) is Literal
        return ChecksField(label=label, choices=_choices(each, info)) if is_chosen else _lines_field(each, label)
    raise TypeError(f"No form field for an option of type {kind!r}.")


class Lines(forms.Textarea):
    """Browsers send line ends of their own; the page and the default are compared without them."""

    def __init__(self) -> None:
        super().__init__(attrs={"class": "input", "rows": "3", "spellcheck": "false"})

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> str | None:
        sent = super().value_from_datadict(data, files, name)
        return None if sent is None else str(sent).replace("\r\n", "\n")


class LinesField(forms.CharField):
    """Several texts, one a line. Blanks at either end may belong to a name; lines of nothing else are left out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=Lines(), strip=False, **options)

    def to_python(self, value: Any) -> Any:
        """The lines as a tuple, which is what the option holds."""
        return tuple(line for line in str(value or "").split("\n") if line.strip())


class Checks(forms.CheckboxSelectMultiple):
    """The value is a text with a line for each chosen, as it is of ``Lines``, so that all options compare alike."""

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> str:
        sent = super().value_from_datadict(data, files, name)
        return "\n".join(sent) if isinstance(sent, list) else str(sent or "")

    def format_value(self, value: Any) -> list[str]:
        return str(value or "").split("\n")

    def id_for_label(self, id_: str, index: str | None = None) -> str:
        """Of the group as a whole too: help and error are named after it."""
        return super().id_for_label(id_, index) or id_


class ChecksField(forms.MultipleChoiceField):
    """Some of a list, in the order of the list."""

    widget = Checks

    def to_python(self, value: Any) -> Any:
        """The chosen as a tuple, which is what the option holds."""
        return tuple(line for line in str(value or "").split("\n") if line)


def _lines_field(each: Any, label: str | None) -> LinesField:
    if get_origin(each) is Annotated:  # the model minds what else is asked of it
        each = get_args(each)[0]
    if each is not str:
        raise TypeError(f"No form field for several of type {each!r}.")
    return LinesField(label=label, required=False)


def _choices(kind: Any, info: FieldInfo) -> list[tuple[str, str]]:
    labels = ui(info).get("labels") or {}
    return [(value, labels.get(value, str(value))) for value in get_args(kind)]


def _number(attributes: dict[str, str]) -> forms.NumberInput:
    return forms.NumberInput(attrs={"class": "input num", **attributes})


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _bounds(info: FieldInfo) -> dict[str, str]:
    """HTML attributes of the bounds; HTML has none for those that are themselves excluded, ``train_form.js`` has."""
    found: dict[str, str] = {}
    for rule in info.metadata:
        match rule:
            case annotated_types.Ge(ge):
                found["min"] = as_text(ge)
            case annotated_types.Le(le):
                found["max"] = as_text(le)
            case annotated_types.Gt(gt):
                found["data-above"] = as_text(gt)
            case annotated_types.Lt(lt):
                found["data-below"] = as_text(lt)
            case _:
                pass
    return found


_SENTENCES = {
    "greater_than": "Must be greater than {gt}.",
    "greater_than_equal": "Must be at least {ge}.",
    "less_than": "Must be less than {lt}.",
    "less_than_equal": "Must be at most {le}.",
}


def sentence(problem: Mapping[str, Any]) -> str:
    """What pydantic found, said to a person."""
    template = _SENTENCES.get(problem["type"])
    if template:
        return template.format(**{key: as_text(value) for key, value in problem["ctx"].items()})
    return str(problem["msg"]).removeprefix("Value error, ").capitalize().rstrip(".") + "."


def as_text(value: Any) -> str:
    """As the value stands in a field: ``0.001``, ``1e-05``, ``64``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, tuple):
        return "\n".join(value)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _initial(value: Any) -> Any:
    return as_text(value) if isinstance(value, float | tuple) else value
