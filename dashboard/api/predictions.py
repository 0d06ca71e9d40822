"""Single answers of a network, as evaluations and classifications tell them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

from django.http import StreamingHttpResponse
from ninja import Schema
from pydantic import Field

from dashboard.csv_rows import csv_response
from engine.store.predictions import Filters, Prediction, PredictionsReader, Sort
from jobs.evaluations import predictions_reader
from jobs.models import Job
from wire.manifests import SplitName

MOST_ROWS = 1000
EVALUATED_TOP = 5
"""Answers that an evaluation keeps of each image."""
CSV_CONTENT = {"responses": {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}}

Label: TypeAlias = Annotated[int, Field(ge=0)]
Rows: TypeAlias = Annotated[int, Field(ge=1, le=MOST_ROWS)]


class Answer(Schema):
    label: int
    name: str
    probability: float
    """0 to 1."""


class PredictionInfo(Schema):
    id: int
    split: SplitName | None
    sample: int | None
    """Its id in the dataset; null for images that were brought."""
    name: str
    label: int | None
    """Number of the true class, where it is known."""
    label_name: str | None
    predicted: int | None
    predicted_name: str | None
    confidence: float | None
    """The probability of `predicted`, 0 to 1."""
    truth_probability: float | None
    loss: float | None
    wrong: bool | None
    error: str | None
    """Why there is no answer."""
    top: list[Answer]


class PredictionPage(Schema):
    total: int
    """With these filters."""
    classes: list[str]
    """A label is a place in here, counted from 0."""
    items: list[PredictionInfo]


def page_of(job: Job, *, sort: Sort, offset: int, limit: int, filters: Filters) -> PredictionPage:
    with predictions_reader(job) as reader:
        items = reader.page(sort=sort, offset=offset, limit=limit, **filters)
        return PredictionPage(
            total=reader.count(**filters), classes=list(reader.classes), items=_infos(items, reader.classes)
        )


def top_of(job: Job, label: int, n: int) -> list[PredictionInfo]:
    with predictions_reader(job) as reader:
        return _infos(reader.top_of_class(label, n), reader.classes)


def csv_of(job: Job, filename: str, *, sort: Sort, filters: Filters) -> StreamingHttpResponse:
    """One line an image, with all its answers."""
    reader = predictions_reader(job)
    n_top = min(int(job.spec.get("top", EVALUATED_TOP)), len(reader.classes))
    header = ["id", "split", "name", "truth", "predicted", "confidence", "truth_probability", "loss", "wrong", "error"]
    header += [cell for rank in range(1, n_top + 1) for cell in (f"top{rank}", f"top{rank}_probability")]
    return csv_response(filename, header, _rows(reader, sort, filters, n_top))


def _rows(reader: PredictionsReader, sort: Sort, filters: Filters, n_top: int) -> Iterator[list[object]]:
    with reader:
        names = reader.classes
        for one in reader.iterate(sort=sort, **filters):
            known = (one.id, one.split, one.name, _name(names, one.label), _name(names, one.predicted))
            numbers = (one.confidence, one.truth_probability, one.loss, one.wrong, one.error)
            answers = [cell for label, share in one.top[:n_top] for cell in (_name(names, label), share)]
            yield [*known, *numbers, *answers, *[None] * (2 * n_top - len(answers))]


def _infos(predictions: Iterable[Prediction], names: tuple[str, ...]) -> list[PredictionInfo]:
    return [
        PredictionInfo(
            id=one.id,
            split=one.split,
            sample=one.sample,
            name=one.name,
            label=one.label,
            label_name=_name(names, one.label),
            predicted=one.predicted,
            predicted_name=_name(names, one.predicted),
            confidence=one.confidence,
            truth_probability=one.truth_probability,
            loss=one.loss,
            wrong=one.wrong,
            error=one.error,
            top=[Answer(label=label, name=_name(names, label) or "", probability=share) for label, share in one.top],
        )
        for one in predictions
    ]


def _name(names: tuple[str, ...], label: int | None) -> str | None:
    return names[label] if label is not None and 0 <= label < len(names) else None
