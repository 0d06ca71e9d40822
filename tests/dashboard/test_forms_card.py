from __future__ import annotations

from html.parser import HTMLParser
from typing import Literal

import pytest
from django.http import QueryDict
from pydantic import BaseModel, Field

from dashboard.forms.card_form import CardForm, as_text, form_field, ui
from engine.catalog import backend_cards, format_cards, model_cards, sample_cards, task_cards
from wire.specs import CalibrationOptions, ImportOptions, TrainOptions, VerificationOptions

CARDS: dict[str, type[BaseModel]] = {
    card.name: card.options for card in [*model_cards().values(), *task_cards().values()]
}
CARDS |= {card.name: card.options for card in backend_cards().values()}
CARDS |= {card.name: card.options for card in [*format_cards().values(), *sample_cards().values()]}
CARDS |= {"training": TrainOptions, "import": ImportOptions}
CARDS |= {"calibration": CalibrationOptions}
CARDS |= {"verification": VerificationOptions}


class Every(BaseModel):
    epochs: int = Field(3, ge=1, le=9, title="Epochs", json_schema_extra={"group": "Training", "unit": "times"})
    rate: float = Field(1e-5, gt=0, lt=1, title="Rate")
    mode: Literal["slow", "fast"] = Field("slow", title="Mode", json_schema_extra={"labels": {"fast": "Very fast"}})
    fine: bool = Field(default=False, title="Fine")
    name: str = Field("x", title="Name", max_length=4)


class Attributes(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = {}
        self.feed(str(html))

    def handle_starttag(self, tag, attrs):
        self.found = self.found or dict(attrs)


def attributes(bound):
    return Attributes(bound).found


def sent(**values):
    return {
        f"o-{name}": value for name, value in {"epochs": "3", "rate": "0.1", "mode": "slow", "name": "x"}.items()
    } | {f"o-{name}": value for name, value in values.items()}


@pytest.mark.parametrize("options", CARDS.values(), ids=CARDS)
def test_the_form_of_a_card_shows_each_option_and_accepts_its_own_defaults(options):
    shown = CardForm(options, prefix="o")
    assert list(shown.fields) == list(options.model_fields)
    assert not any(field.modified for field in shown.option_fields)
    assert all(field.bound.label for field in shown.option_fields)
    posted = CardForm(options, prefix="o", data={f"o-{name}": as_text(value) for name, value in shown.defaults.items()})
    assert posted.is_valid(), posted.errors
    assert posted.options == options()


@pytest.mark.parametrize("options", CARDS.values(), ids=CARDS)
def test_bounds_stand_in_the_page_and_hold_on_the_server(options):
    form = CardForm(options, prefix="o")
    properties = options.model_json_schema().get("properties", {})
    for name, schema in properties.items():
        found = attributes(form[name])
        for bound, attribute, step in (
            ("minimum", "min", -1),
            ("maximum", "max", 1),
            ("exclusiveMinimum", "data-above", 0),
            ("exclusiveMaximum", "data-below", 0),
        ):
            if bound not in schema:
                continue
            assert float(found[attribute]) == schema[bound]
            outside = schema[bound] + step * max(1, abs(schema[bound]))
            posted = CardForm(options, prefix="o", data=defaults_of(form) | {f"o-{name}": as_text(outside)})
            assert not posted.is_valid()
            assert list(posted.errors) == [name]


def defaults_of(form):
    return {f"o-{name}": as_text(value) for name, value in form.defaults.items()}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("epochs", "0", "Must be at least 1."),
        ("epochs", "10", "Must be at most 9."),
        ("epochs", "many", "Enter a whole number."),
        ("epochs", "", "This field is required."),
        ("rate", "0", "Must be greater than 0."),
        ("rate", "1", "Must be less than 1."),
        ("rate", "nan", "Enter a number."),
        ("mode", "warp", "Select a valid choice. warp is not one of the available choices."),
    ],
)
def test_an_error_stands_at_its_field(name, value, text):
    form = CardForm(Every, prefix="o", data=sent(**{name: value}))
    assert form.errors == {name: [text]}
    assert attributes(next(field for field in form.option_fields if field.bound.name == name).bound)["aria-invalid"]


def test_a_rule_over_several_fields_stands_above_them():
    sent = defaults_of(CardForm(ImportOptions, prefix="o")) | {"o-val_pct": "60", "o-test_pct": "60"}
    form = CardForm(ImportOptions, prefix="o", data=sent)
    assert form.non_field_errors() == ["Validation and test together may take at most 95 %."]


def test_modified_compares_with_the_default_that_is_shown():
    form = CardForm(Every, prefix="o", values={"epochs": 5, "rate": 0.2}, defaults={"rate": 0.2})
    fields = {field.bound.name: field for field in form.option_fields}
    assert fields["epochs"].modified
    assert not fields["rate"].modified
    assert attributes(fields["epochs"].bound)["data-default"] == "3"


def test_labels_units_groups_and_reasons_come_from_the_card():
    form = CardForm(Every, prefix="o", reasons={"epochs": "Three is enough."})
    fields = {field.bound.name: field for field in form.option_fields}
    assert (fields["epochs"].group, fields["epochs"].unit) == ("Training", "times")
    assert fields["epochs"].reason == "Three is enough."
    assert fields["rate"].group == "Options"
    assert dict(fields["mode"].bound.field.choices) == {"slow": "slow", "fast": "Very fast"}


def test_a_small_number_keeps_its_value_through_the_page():
    form = CardForm(Every, prefix="o")
    assert attributes(form["rate"])["value"] == "1e-05"
    assert CardForm(Every, prefix="o", data=sent(rate="1e-05")).fields["rate"].clean("1e-05") == 1e-5


class Named(BaseModel):
    names: tuple[str, ...] = Field(("cat", "dog"), title="Names")


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        ("cat\r\ndog\r\n", ("cat", "dog")),
        ("\r\n  \r\n", ()),
        ("", ()),
        (" leading\ntrailing \na,b\n猫", (" leading", "trailing ", "a,b", "猫")),
    ],
)
def test_several_texts_are_written_one_a_line(sent, names):
    form = CardForm(Named, prefix="o", data={"o-names": sent})
    assert form.is_valid()
    assert form.options.names == names


def test_line_ends_of_a_browser_are_no_change():
    shown = CardForm(Named, prefix="o")
    assert "cat\ndog</textarea>" in str(shown["names"])
    assert not shown.option_fields[0].modified
    assert not CardForm(Named, prefix="o", data={"o-names": "cat\r\ndog"}).option_fields[0].modified
    changed = CardForm(Named, prefix="o", values={"names": ("cat",)})
    assert changed.option_fields[0].modified
    assert changed.option_fields[0].default == "cat\ndog"


def test_an_option_of_a_type_that_no_field_exists_for_is_refused():
    class Odd(BaseModel):
        names: list[str] = []

    with pytest.raises(TypeError, match="list"):
        form_field(Odd.model_fields["names"])
    assert ui(Odd.model_fields["names"]) == {}


class Several(BaseModel):
    sizes: tuple[Literal["small", "large"], ...] = Field(
        ("small",), min_length=1, title="Sizes", json_schema_extra={"labels": {"large": "Very large"}}
    )
    limit: float | None = Field(None, ge=0, title="Limit")


def test_an_option_that_takes_several_of_a_list_is_a_box_for_each():
    shown = CardForm(Several, prefix="o")
    [sizes, limit] = shown.option_fields
    assert [(check.value, check.label, check.checked) for check in sizes.checks] == [
        ("small", "small", True),
        ("large", "Very large", False),
    ]
    assert limit.checks == []
    sent = CardForm(Several, prefix="o", data=QueryDict("o-sizes=large&o-sizes=small"))
    assert sent.is_valid(), sent.errors
    assert sent.options.sizes == ("large", "small")
    assert sent.option_fields[0].modified
    for query in ("o-limit=1", "o-sizes=huge"):
        assert "sizes" in CardForm(Several, prefix="o", data=QueryDict(query)).errors


def test_an_option_that_may_be_none_may_be_left_empty():
    sent = CardForm(Several, prefix="o", data=QueryDict("o-sizes=small&o-limit="))
    assert sent.is_valid(), sent.errors
    assert sent.options.limit is None
    assert not any(field.modified for field in sent.option_fields)
