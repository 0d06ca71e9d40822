"""What two exports or evaluations of a run answered about the same images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self, TypeAlias

from django.http import StreamingHttpResponse
from ninja import Query, Router, Schema
from pydantic import ConfigDict, Field

from dashboard.api.bodies import Count, answers
from dashboard.api.predictions import CSV_CONTENT, Rows
from dashboard.compared import split_of
from dashboard.csv_rows import csv_response
from dashboard.visitor import SignedIn
from engine.store.comparison import ComparisonReader, Kind, Pair, Said
from jobs.comparison import Side, compared, side_of, sides_of
from wire.errors import FoveaError
from wire.manifests import SplitName

router = Router()
"""Below `/trainings`."""

Key: TypeAlias = Annotated[str, Field(max_length=40, examples=["evaluation:12", "export:34"])]


class Asked(Schema):
    """Which two, and on which images."""

    model_config = ConfigDict(extra="forbid")

    a: Key
    b: Key
    split: SplitName | None = None
    """Without it one that nothing was learnt from."""
    kind: Kind = "differ"


class SideInfo(Schema):
    key: str
    """`evaluation:12` or `export:34`: what `a` and `b` take."""
    name: str
    checkpoint: str
    told: str
    """The verdict of an export, the number of an evaluation."""
    dataset: int | None
    """The import that made the images it was asked about."""
    why_not: str
    """Why it cannot be compared; empty where it can."""

    @classmethod
    def of(cls, side: Side) -> Self:
        return cls(
            key=side.key,
            name=side.name,
            checkpoint=side.checkpoint,
            told=side.told,
            dataset=side.dataset,
            why_not=side.why_not,
        )


class SaidInfo(Schema):
    name: str | None
    """The class; null where there is no answer."""
    probability: float | None
    """0 to 1."""
    right: bool
    error: str | None
    """Why there is no answer."""

    @classmethod
    def of(cls, said: Said, *, right: bool) -> Self:
        return cls(name=said.name, probability=said.probability, right=right, error=said.error)


class PairInfo(Schema):
    sample: int
    """Its id in the dataset."""
    name: str
    truth: str
    a: SaidInfo
    b: SaidInfo
    same: bool

    @classmethod
    def of(cls, pair: Pair) -> Self:
        return cls(
            sample=pair.sample,
            name=pair.name,
            truth=pair.truth,
            a=SaidInfo.of(pair.a, right=pair.right_a),
            b=SaidInfo.of(pair.b, right=pair.right_b),
            same=pair.same,
        )


class ComparisonInfo(Schema):
    a: SideInfo
    b: SideInfo
    splits: list[SplitName]
    """Those that both have answers for."""
    split: SplitName
    n_images: int
    """Of the split, that both saw and whose class is known; what follows is about these."""
    accuracy_a: float | None
    """0 to 1; null where there is no image."""
    accuracy_b: float | None
    agreement: float | None
    """The share with the same first answer, right or wrong."""
    n_both_right: int
    n_only_a: int
    n_only_b: int
    n_both_wrong: int
    n_differ: int
    """With different first answers."""
    kind: Kind
    total: int
    """Images of this kind."""
    items: list[PairInfo]
    """Different answers first, of those the surest; then by how unlike their probabilities are."""


@router.get("/{int:run_id}/comparables", response=answers(list[SideInfo]), summary="What can be compared")
def training_comparables(request: SignedIn, run_id: int) -> list[SideInfo]:
    """Exports that have files, then evaluations; `why_not` says which of them kept no answers."""
    return [SideInfo.of(side) for side in sides_of(request.user, run_id)]


@router.get("/{int:run_id}/comparison", response=answers(ComparisonInfo), summary="Two side by side")
def training_comparison(
    request: SignedIn, run_id: int, asked: Query[Asked], offset: Count = 0, limit: Rows = 60
) -> ComparisonInfo:
    """`a` and `b` are `evaluation:12` or `export:34`; without a `split` one that nothing was learnt from.

    Classes are compared by name. Nothing is run: these are the answers that were stored when each was made.
    """
    one, other = _sides(request, run_id, asked)
    with compared(one, other) as reader:
        split = split_of(reader, one, other, asked.split or "")
        counts = reader.counts(split)
        pairs = reader.page(split, asked.kind, offset=offset, limit=limit)
        return ComparisonInfo(
            a=SideInfo.of(one),
            b=SideInfo.of(other),
            splits=list(reader.splits),
            split=split,
            n_images=counts.n_images,
            accuracy_a=counts.accuracy_a,
            accuracy_b=counts.accuracy_b,
            agreement=counts.agreement,
            n_both_right=counts.n_both_right,
            n_only_a=counts.n_only_a,
            n_only_b=counts.n_only_b,
            n_both_wrong=counts.n_both_wrong,
            n_differ=counts.n_differ,
            kind=asked.kind,
            total=counts.of_kind(asked.kind),
            items=[PairInfo.of(pair) for pair in pairs],
        )


@router.get(
    "/{int:run_id}/comparison.csv",
    response=answers(None),
    openapi_extra=CSV_CONTENT,
    summary="Two side by side as CSV",
)
def training_comparison_csv(request: SignedIn, run_id: int, asked: Query[Asked]) -> StreamingHttpResponse:
    """One line an image."""
    one, other = _sides(request, run_id, asked)
    reader = compared(one, other)
    try:
        split = split_of(reader, one, other, asked.split or "")
    except FoveaError:
        reader.close()
        raise
    header = ["sample", "name", "truth"]
    header += [f"{side.key}{suffix}" for side in (one, other) for suffix in ("", " probability", " right")]
    return csv_response(f"comparison-{run_id}-{split}-{asked.kind}.csv", header, _rows(reader, split, asked.kind))


def _sides(request: SignedIn, run_id: int, asked: Asked) -> tuple[Side, Side]:
    sides = sides_of(request.user, run_id)
    return side_of(sides, asked.a), side_of(sides, asked.b)


def _rows(reader: ComparisonReader, split: SplitName, kind: Kind) -> Iterator[list[object]]:
    with reader:
        for pair in reader.iterate(split, kind):
            a, b = pair.a, pair.b
            first = [pair.sample, pair.name, pair.truth]
            yield [*first, a.name, a.probability, pair.right_a, b.name, b.probability, pair.right_b]
