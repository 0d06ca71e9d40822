"""Answers of a trained network for many images at once."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse, StreamingHttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.api.bodies import Count, answers
from dashboard.api.predictions import (
    CSV_CONTENT,
    Label,
    PredictionInfo,
    PredictionPage,
    Rows,
    csv_of,
    page_of,
    top_of,
)
from dashboard.visitor import SignedIn
from engine.store.predictions import Filters, Sort
from jobs.evaluations import classification_for, classifications_of, predictions_reader
from jobs.requests import ClassificationRequest
from jobs.selectors import JobSummary, job_summary
from jobs.services import classification_submit
from wire.errors import NotFound

of_run = Router()
"""Below `/trainings`."""
router = Router()

THUMBNAIL_TYPES = frozenset({"image/jpeg", "image/png", "image/webp"})
KEPT_A_DAY = "private, max-age=86400, immutable"
"""What a classification made never changes."""
PICTURE_CONTENT = {
    "responses": {200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}},
}


class ClassificationFilters(Schema):
    """Which images; together they narrow the choice down."""

    model_config = ConfigDict(extra="forbid")

    label: Label | None = None
    predicted: Label | None = None
    wrong: bool | None = None
    unreadable: bool | None = None
    q: str = Field("", max_length=200)

    def chosen(self) -> Filters:
        return Filters(
            label=self.label, predicted=self.predicted, wrong=self.wrong, unreadable=self.unreadable, q=self.q
        )


@of_run.get("/{int:job_id}/classifications", response=answers(list[JobSummary]), summary="Classifications by a run")
def classifications_list(request: SignedIn, job_id: int) -> list[JobSummary]:
    """Newest first; one that succeeded carries `report_meta`."""
    return classifications_of(request.user, job_id)


@router.post("", response=answers(JobSummary, status=201), summary="Classify many images")
def classification_start(request: SignedIn, wish: ClassificationRequest) -> Status[JobSummary]:
    """By a run that has ended; `source` is that of an import. Needs no device: it runs beside trainings."""
    return Status(201, job_summary(classification_submit(request.user, wish), request.user))


@router.get("/{int:job_id}", response=answers(JobSummary), summary="One classification")
def classification_get(request: SignedIn, job_id: int) -> JobSummary:
    return job_summary(classification_for(request.user, job_id), request.user)


@router.get("/{int:job_id}/predictions", response=answers(PredictionPage), summary="Single answers of a classification")
def classification_predictions(
    request: SignedIn,
    job_id: int,
    filters: Query[ClassificationFilters],
    sort: Sort = "id",
    offset: Count = 0,
    limit: Rows = 60,
) -> PredictionPage:
    """`label` and `wrong` know only images whose source told their class."""
    job = classification_for(request.user, job_id)
    return page_of(job, sort=sort, offset=offset, limit=limit, filters=filters.chosen())


@router.get(
    "/{int:job_id}/predictions.csv",
    response=answers(None),
    openapi_extra=CSV_CONTENT,
    summary="Single answers of a classification as CSV",
)
def classification_predictions_csv(
    request: SignedIn, job_id: int, filters: Query[ClassificationFilters], sort: Sort = "id"
) -> StreamingHttpResponse:
    job = classification_for(request.user, job_id)
    return csv_of(job, f"classification-{job_id}.csv", sort=sort, filters=filters.chosen())


@router.get("/{int:job_id}/top", response=answers(list[PredictionInfo]), summary="The surest images of a class")
def classification_top(
    request: SignedIn, job_id: int, label: Label = 0, n: Annotated[int, Field(ge=1, le=100)] = 12
) -> list[PredictionInfo]:
    """Those to which the network gives the class of number `label` the highest probability, highest first."""
    return top_of(classification_for(request.user, job_id), label, n)


@router.get(
    "/{int:job_id}/images/{int:prediction_id}",
    response=answers(None),
    openapi_extra=PICTURE_CONTENT,
    summary="A small picture of one image",
)
def classification_image(request: SignedIn, job_id: int, prediction_id: int) -> HttpResponse:
    """Made anew from its pixels when it was classified; nothing that was brought is served as it came."""
    with predictions_reader(classification_for(request.user, job_id)) as reader:
        found = reader.thumbnail(prediction_id)
    if found is None or found[1] not in THUMBNAIL_TYPES:
        raise NotFound(
            f"Classification #{job_id} has no picture #{prediction_id}.",
            hint="The image could not be read, or there is none of this number.",
        )
    response = HttpResponse(found[0], content_type=found[1])
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = KEPT_A_DAY
    return response
