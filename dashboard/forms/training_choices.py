"""What can be picked in the training form: models, and what a model starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.contrib.auth.models import User

from engine.catalog import model_cards
from jobs.access import visible_jobs
from jobs.planning import DatasetFacts
from jobs.selectors import ArtifactInfo, JobSummary, checkpoints_of
from wire.cards import ModelCard

MAX_CHECKPOINTS = 200


@dataclass(frozen=True, slots=True)
class ModelChoice:
    card: ModelCard
    selected: bool
    recommended: bool
    refusal: str
    """Why it cannot be chosen now; empty where it can."""

    @property
    def words(self) -> str:
        """What the search looks in."""
        card = self.card
        return f"{card.label} {card.name} {card.family} {card.year} {card.summary}".lower()

    @property
    def licences(self) -> str:
        """Of the weights, each once."""
        return "; ".join(dict.fromkeys(weights.licence for weights in self.card.weights))


@dataclass(frozen=True, slots=True)
class StartChoice:
    value: str
    label: str
    help: str
    selected: bool


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    id: int
    label: str


def refusal_of(card: ModelCard, image_px: int | None) -> str:
    """Why a model cannot take images of the size that was set by hand; empty where it can."""
    if image_px is None:
        return ""
    if image_px < card.min_px:
        return f"Needs at least {card.min_px} px; the image size is set to {image_px} px."
    return ""


class Choices:
    def __init__(self, user: User, card: ModelCard, dataset: JobSummary, *, start: str) -> None:
        """``start`` is what was asked for; where it can be had it is among the choices, however old it is."""
        self.user = user
        self.card = card
        self.dataset = dataset
        self.start = start

    def models(self, image_px: int | None, *, recommended: str) -> list[ModelChoice]:
        """Those made for images of this size first."""
        small = DatasetFacts.of(self.dataset.dataset_meta or {}).small
        cards = sorted(model_cards().values(), key=lambda card: (card.small_images != small, card.year, card.name))
        return [
            ModelChoice(
                card,
                selected=card.name == self.card.name,
                recommended=card.name == recommended,
                refusal=refusal_of(card, image_px),
            )
            for card in cards
        ]

    @cached_property
    def checkpoints(self) -> list[CheckpointChoice]:
        """Of earlier runs of this model, newest first."""
        found = checkpoints_of(self.user, model=self.card.name)
        older = [each for each in found[MAX_CHECKPOINTS:] if f"checkpoint:{each.id}" == self.start]
        made = found[:MAX_CHECKPOINTS] + older
        runs = visible_jobs(self.user).filter(pk__in={each.job.id for each in made})
        best_steps = dict(runs.values_list("pk", "best_step"))
        return [_checkpoint_choice(each, best=each.meta.get("step") == best_steps.get(each.job.id)) for each in made]

    @cached_property
    def starts(self) -> frozenset[str]:
        published = {f"published:{weights.name}" for weights in self.card.weights}
        return frozenset({"scratch"} | published | {f"checkpoint:{made.id}" for made in self.checkpoints})

    def start_choices(self, start: str) -> list[StartChoice]:
        choices = [StartChoice("scratch", "From scratch", "Random weights.", start == "scratch")]
        for weights in self.card.weights:
            value = f"published:{weights.name}"
            top1 = f", {weights.top1_pct:.1f} % top-1" if weights.top1_pct else ""
            help_text = f"{weights.source}, trained on {weights.trained_on}{top1}. Licence: {weights.licence}."
            choices.append(StartChoice(value, f"Published weights {weights.name}", help_text, start == value))
        return choices


def _checkpoint_choice(made: ArtifactInfo, *, best: bool) -> CheckpointChoice:
    metrics = made.meta.get("metrics") or {}
    scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if isinstance(value, int | float))
    parts = [f"{made.job.title} (#{made.job.id})", f"step {made.meta.get('step', made.name.removeprefix('step-'))}"]
    return CheckpointChoice(made.id, " · ".join([*parts, *filter(None, [scores, "best" if best else ""])]))
