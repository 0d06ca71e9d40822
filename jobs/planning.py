"""Defaults of a training, chosen from the dataset, the model and the way it starts. Pure: no database, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from engine.catalog import model_cards
from wire.cards import ModelCard
from wire.specs import Augmentation, Colour, Optimiser, Resize, TrainOptions

Start: TypeAlias = Literal["scratch", "published", "checkpoint"]

SMALL_PX = 64
"""A dataset whose median side is at most this counts as small images, for which small networks are made."""


class DeviceFacts(Protocol):
    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What planning needs of a dataset, read from the meta of its artifact."""

    n_train: int
    side_px: int
    """The median of the longer side."""
    aspect: float
    """Median width by median height, at least 1."""
    colour: Colour

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> DatasetFacts:
        width_px, height_px = (int(meta[key]["median"]) for key in ("width_px", "height_px"))
        return cls(
            n_train=int(meta["counts"].get("train", 0)) or int(meta["n_images"]),
            side_px=max(width_px, height_px),
            aspect=max(width_px, height_px) / max(1, min(width_px, height_px)),
            colour="grey" if meta["colour"] == "grey" else "rgb",
        )

    @property
    def small(self) -> bool:
        return self.side_px <= SMALL_PX


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is best trained from random weights, for about 10,000 images."""

    optimiser: Optimiser = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.05


RECIPES: dict[str, Recipe] = {
    "lenet5": Recipe(learning_rate=3e-3, weight_decay=0.01),
    "resnet20": Recipe(optimiser="nesterov", learning_rate=0.1, weight_decay=5e-4),
    # No normalisation layers: larger steps diverge.
    "alexnet": Recipe(learning_rate=3e-4, weight_decay=0.01),
    "convnext_tiny": Recipe(learning_rate=5e-4),
    "swin_tiny": Recipe(learning_rate=5e-4),
    "vit_small": Recipe(learning_rate=5e-4),
}
"""A model that is not listed trains by ``Recipe()``."""

SGD_LEARNING_RATE = 0.05
ADAMW_LEARNING_RATE = 1e-3
FINE_TUNING_SHARE = 0.2
"""Of the learning rate from scratch: weights that know something already are moved less."""

Reasons: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    model: str
    options: TrainOptions
    reasons: Reasons
    """Field of ``TrainOptions`` (and ``model``) -> one sentence: why this value."""


def plan(
    meta: Mapping[str, Any], model: ModelCard | None = None, devices: Sequence[DeviceFacts] = ()
) -> tuple[str, TrainOptions]:
    """The model and the options that a training of this dataset starts with when nobody says otherwise."""
    made = plan_with_reasons(meta, model, devices)
    return made.model, made.options


def plan_with_reasons(
    meta: Mapping[str, Any],
    model: ModelCard | None = None,
    devices: Sequence[DeviceFacts] = (),
    *,
    start: Start = "scratch",
    optimiser: Optimiser | None = None,
) -> Plan:
    """Like ``plan``, with a sentence for each choice.

    Args:
        meta: of the dataset's artifact.
        model: None lets the dataset choose.
        devices: those there are; none known counts as a CPU.
        start: from what weights.
        optimiser: when it is already decided; the learning rate follows it.
    """
    facts = DatasetFacts.of(meta)
    has_gpu = any(device.kind == "cuda" for device in devices)
    reasons: Reasons = {}
    card = model or _model_for(facts, reasons)
    values: dict[str, Any] = {}
    values["image_px"], reasons["image_px"] = _image_px(facts, card, has_gpu=has_gpu)
    values["resize"], reasons["resize"] = _resize(facts)
    values["colour"], reasons["colour"] = _colour(facts, start)
    values["augmentation"], reasons["augmentation"] = _augmentation(facts)
    values["epochs"], reasons["epochs"] = _epochs(facts, card, start)
    values["batch_size"], reasons["batch_size"] = _batch_size(facts, card, has_gpu=has_gpu)
    rates, why = _optimisation(card, start, optimiser)
    return Plan(card.name, TrainOptions(**values, **rates), reasons | why)


def _model_for(facts: DatasetFacts, reasons: Reasons) -> ModelCard:
    if not facts.small:
        name, why = "resnet18", "A solid first choice for photographs."
    elif facts.colour == "grey":
        name, why = "lenet5", "The images are small and grey, as those it was made for."
    else:
        name, why = "resnet20", "The images are small and in colour."
    reasons["model"] = why
    return model_cards()[name]


def _image_px(facts: DatasetFacts, card: ModelCard, *, has_gpu: bool) -> tuple[int, str]:
    if card.small_images:
        return card.default_px, f"{card.label} is made for images of about {card.default_px} px."
    if facts.small:
        px = max(card.min_px, SMALL_PX)
        return (
            px,
            f"The images are {facts.side_px} px; {SMALL_PX} px leaves the network room, more would only cost time.",
        )
    if facts.side_px < 192 or not has_gpu:
        why = "No GPU: a smaller size trains several times faster." if facts.side_px >= 192 else "The images are small."
        return max(card.min_px, 128), why
    return max(card.min_px, card.default_px), f"What {card.label} is usually trained with."


def _resize(facts: DatasetFacts) -> tuple[Resize, str]:
    if facts.aspect > 2 and not facts.small:
        return "half_crop", "The pictures are far from square: squashing would distort them, cropping lose much."
    return "squash", "Nothing is cut off, and most pictures are near enough to square."


def _colour(facts: DatasetFacts, start: Start) -> tuple[Colour, str]:
    if start == "published":
        return "rgb", "Published weights expect three channels."
    if facts.colour == "grey":
        return "grey", "Every image of the dataset is grey."
    return "rgb", "The dataset has coloured images."


def _augmentation(facts: DatasetFacts) -> tuple[Augmentation, str]:
    if not facts.small:
        return "photo", "Usual for photographs."
    if facts.colour == "grey":
        return "shift", "Small grey images are often characters, which a mirror would change."
    return "flip", "Usual for small photographs."


def _epochs(facts: DatasetFacts, card: ModelCard, start: Start) -> tuple[int, str]:
    size = f"{facts.n_train:,} training images"
    if start != "scratch":
        epochs = _by_size(facts.n_train, ((1_000, 20), (10_000, 12), (100_000, 8)), 5)
        return epochs, f"{size}, and weights that know something already."
    if card.small_images and facts.colour == "grey":
        return _by_size(facts.n_train, ((1_000, 40), (10_000, 15)), 10), f"{size}; characters are learnt quickly."
    return _by_size(facts.n_train, ((1_000, 60), (10_000, 40), (100_000, 30)), 20), f"{size}, from random weights."


def _batch_size(facts: DatasetFacts, card: ModelCard, *, has_gpu: bool) -> tuple[int, str]:
    wanted = _by_size(facts.n_train, ((200, 16), (1_000, 32), (10_000, 64)), 128)
    if card.n_flops > 2e9 and not has_gpu:
        return min(wanted, 32), "Keeps a step short and the memory small on a processor."
    return wanted, f"Leaves about {max(1, facts.n_train // wanted):,} steps an epoch."


def _optimisation(card: ModelCard, start: Start, optimiser: Optimiser | None) -> tuple[dict[str, Any], Reasons]:
    recipe = RECIPES.get(card.name, Recipe())
    reasons = {"optimiser": f"Trains {card.label} well without much tuning."}
    if optimiser is None and start != "scratch":
        optimiser, reasons["optimiser"] = "adamw", "Forgiving when earlier weights are adapted."
    if optimiser is not None and (optimiser == "adamw") != (recipe.optimiser == "adamw"):
        adamw = optimiser == "adamw"
        recipe = Recipe(optimiser, ADAMW_LEARNING_RATE if adamw else SGD_LEARNING_RATE, 0.05 if adamw else 5e-4)
    elif optimiser is not None:
        recipe = Recipe(optimiser, recipe.learning_rate, recipe.weight_decay)
    learning_rate = recipe.learning_rate
    reasons["learning_rate"] = "A proven value for this optimiser and model."
    if start != "scratch":
        learning_rate *= FINE_TUNING_SHARE
        reasons["learning_rate"] = "A fifth of the value from scratch, so that what is known stays known."
    reasons["weight_decay"] = "The usual value for this optimiser."
    reasons["schedule"] = "Rarely the best, never bad: it needs no tuning."
    values = {"learning_rate": float(f"{learning_rate:.3g}"), "weight_decay": recipe.weight_decay}
    return {"optimiser": recipe.optimiser, **values}, reasons


def _by_size(n: int, steps: Sequence[tuple[int, int]], largest: int) -> int:
    """The value of the first step that ``n`` is below."""
    return next((value for limit, value in steps if n < limit), largest)
