"""Every extension there is, without loading torch. Built-ins are listed; others come by entry point."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeVar

from wire.cards import BackendCard, Card, FormatCard, ModelCard, SampleCard, TaskCard
from wire.errors import SpecInvalid

BUILTIN_TASKS = ("engine.tasks.classification.card",)
BUILTIN_MODELS = (
    "engine.models.lenet.card",
    "engine.models.resnet_small.card",
    "engine.models.alexnet.card",
    "engine.models.googlenet.card",
    "engine.models.resnet.card",
    "engine.models.mobilenet.card",
    "engine.models.efficientnet.card",
    "engine.models.convnext.card",
    "engine.models.vit.card",
    "engine.models.swin.card",
)
BUILTIN_BACKENDS = (
    "engine.export.backends.pytorch.card",
    "engine.export.backends.onnx.card",
    "engine.export.backends.tensorrt_rtx.card",
)
BUILTIN_FORMATS = ("engine.formats.folder.card", "engine.formats.lists.card")
BUILTIN_SAMPLES = ("engine.formats.samples.digits_card",)

AnyCard = TypeVar("AnyCard", bound=Card)


def _collect(kind: type[AnyCard], builtin: tuple[str, ...], group: str) -> dict[str, AnyCard]:
    """Cards by name. A module holds either ``CARD`` or ``CARDS``."""
    cards: list[AnyCard] = []
    for path in builtin:
        module = import_module(path)
        cards += getattr(module, "CARDS", None) or [module.CARD]
    cards += [point.load() for point in entry_points(group=group)]
    by_name: dict[str, AnyCard] = {}
    for card in cards:
        if not isinstance(card, kind):
            raise TypeError(f"{card!r} is not a {kind.__name__}")
        if card.name in by_name:
            raise ValueError(f"two {kind.__name__}s are called {card.name!r}")
        by_name[card.name] = card
    return by_name


@cache
def task_cards() -> dict[str, TaskCard]:
    return _collect(TaskCard, BUILTIN_TASKS, "fovea.tasks")


@cache
def model_cards() -> dict[str, ModelCard]:
    return _collect(ModelCard, BUILTIN_MODELS, "fovea.models")


@cache
def backend_cards() -> dict[str, BackendCard]:
    return _collect(BackendCard, BUILTIN_BACKENDS, "fovea.backends")


@cache
def format_cards() -> dict[str, FormatCard]:
    return _collect(FormatCard, BUILTIN_FORMATS, "fovea.formats")


@cache
def sample_cards() -> dict[str, SampleCard]:
    return _collect(SampleCard, BUILTIN_SAMPLES, "fovea.samples")


def find_card(cards: dict[str, AnyCard], name: str, *, what: str) -> AnyCard:
    """The card of that name.

    Raises:
        SpecInvalid: there is none; the message lists those there are.
    """
    if name not in cards:
        raise SpecInvalid(f"There is no {what} called {name!r}.", hint=f"Choose one of: {', '.join(sorted(cards))}.")
    return cards[name]
