"""``docs/cards.md``: every model, task, format, sample and export backend with its options, as their cards tell it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from engine.catalog import backend_cards, format_cards, model_cards, sample_cards, task_cards
from wire.cards import BackendCard, Card, ModelCard
from wire.specs import ImportOptions, TrainOptions


def render_cards() -> str:
    rows: Iterable[tuple[str, ...]]
    lines = [
        "# Models, tasks, formats, samples, export backends",
        "",
        "Written by `manage.py export_schema` from the cards (`engine/catalog.py` lists them). Change it there.",
        "",
        "## Models",
        "",
        "Parameters and FLOPs (a multiply-add counts as two) are those of 1,000 classes at the usual size, in colour.",
        "",
        *_table(
            ("Name", "Model", "Year", "Usual size", "Smallest", "Parameters", "FLOPs", "Code", "Published weights"),
            (_model_row(card) for card in model_cards().values()),
        ),
    ]
    for title, cards in (("Tasks", task_cards()), ("Formats", format_cards()), ("Samples", sample_cards())):
        rows = ((f"`{card.name}`", card.label, card.summary) for card in cards.values())
        lines += ["", f"## {title}", "", *_table(("Name", "What", "In a sentence"), rows)]
    backends = map(_backend_row, backend_cards().values())
    head = ("Name", "What", "In a sentence", "Precisions", "Runs on", "Licence of the runtime")
    lines += ["", "## Export backends", "", *_table(head, backends)]
    lines += ["", "## Options", ""]
    every: list[tuple[str, type[BaseModel]]] = [("Every training", TrainOptions), ("Every import", ImportOptions)]
    cards_with_options: list[Card] = [*task_cards().values(), *model_cards().values(), *backend_cards().values()]
    every += [(card.label, card.options) for card in cards_with_options if card.options.model_fields]
    for title, options in every:
        rows = (_option_row(name, field) for name, field in options.model_json_schema()["properties"].items())
        lines += [f"### {title}", "", *_table(("Option", "What", "Default", "Values"), rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]


def _model_row(card: ModelCard) -> tuple[str, ...]:
    weights = "; ".join(f"`{found.file}` ({found.licence})" for found in card.weights) or "none"
    sizes = f"{card.default_px} px", f"{card.min_px} px"
    counts = f"{card.n_parameters:,}", f"{card.n_flops:,}"
    return (f"`{card.name}`", card.label, str(card.year), *sizes, *counts, card.code_licence, weights)


def _backend_row(card: BackendCard) -> tuple[str, ...]:
    runs_on = "NVIDIA GPUs" if card.needs_cuda else "processors, GPUs"
    return (f"`{card.name}`", card.label, card.summary, ", ".join(card.precisions), runs_on, card.licence)


def _option_row(name: str, field: dict[str, Any]) -> tuple[str, ...]:
    what = ": ".join(filter(None, (field.get("title", ""), field.get("description", ""))))
    unit = f" {field['unit']}" if field.get("unit") else ""
    default = field.get("default")
    shown = ", ".join(default) if isinstance(default, list) and default else default
    return (f"`{name}`", what, f"`{shown}`{unit}", _values(field))


def _values(field: dict[str, Any]) -> str:
    if choices := field.get("enum") or field.get("items", {}).get("enum"):
        return ", ".join(f"`{choice}`" for choice in choices)
    bounds = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "exclusiveMaximum": "under"}
    return ", ".join(f"{words} {field[key]:g}" for key, words in bounds.items() if key in field)
