"""What there is to choose from: the cards, without loading what they describe."""

from __future__ import annotations

from typing import Any

from ninja import Router, Schema
from pydantic import BaseModel

from dashboard.api.bodies import answers
from dashboard.visitor import SignedIn
from engine.catalog import model_cards, sample_cards, task_cards
from wire.cards import Card, ModelCard, SampleCard, TaskCard

router = Router()


class CardOut(Schema):
    name: str
    label: str
    summary: str
    options: dict[str, Any]
    """JSON schema of what can be chosen."""

    @staticmethod
    def resolve_options(card: Card) -> dict[str, Any]:
        options: type[BaseModel] = card.options
        return options.model_json_schema()


class WeightsOut(Schema):
    name: str
    source: str
    licence: str
    trained_on: str
    top1_pct: float | None


class ModelOut(CardOut):
    family: str
    year: int
    min_px: int
    default_px: int
    n_parameters: int
    n_flops: int
    code_licence: str
    small_images: bool
    weights: list[WeightsOut]


class TaskOut(CardOut):
    main_series: str
    main_better: str


class SampleOut(CardOut):
    task: str
    licence: str
    n_images: int
    n_classes: int
    tags: list[str]


@router.get("/models", response=answers(list[ModelOut]), summary="Models")
def models(request: SignedIn) -> list[ModelCard]:
    return list(model_cards().values())


@router.get("/tasks", response=answers(list[TaskOut]), summary="Tasks")
def tasks(request: SignedIn) -> list[TaskCard]:
    return list(task_cards().values())


@router.get("/samples", response=answers(list[SampleOut]), summary="Bundled samples")
def samples(request: SignedIn) -> list[SampleCard]:
    return list(sample_cards().values())
