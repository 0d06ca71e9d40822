"""How good a run is: evaluations of its checkpoints, and every single answer in them."""

from __future__ import annotations

from django.http import HttpResponse, StreamingHttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.api.bodies import Count, answers
from dashboard.api.predictions import CSV_CONTENT, Label, PredictionPage, Rows, csv_of, page_of
from dashboard.visitor import SignedIn
from engine.store.predictions import Filters, Sort
from jobs.evaluations import evaluation_for, evaluations_of, report_of
from jobs.requests import EvaluationRequest
from jobs.selectors import JobSummary, job_summary
from jobs.services import evaluation_submit
from wire.evaluation import EvaluationReport
from wire.manifests import SplitName

of_run = Router()
"""Below `/trainings`."""
router = Router()


class EvaluationFilters(Schema):
    """Which images; together they narrow the choice down."""

    model_config = ConfigDict(extra="forbid")

    split: SplitName | None = None
    label: Label | None = None
    predicted: Label | None = None
    wrong: bool | None = None
    q: str = Field("", max_length=200)

    def chosen(self) -> Filters:
        return Filters(split=self.split, label=self.label, predicted=self.predicted, wrong=self.wrong, q=self.q)


@of_run.get("/{int:job_id}/evaluations", response=answers(list[JobSummary]), summary="Evaluations of a run")
def evaluations_list(request: SignedIn, job_id: int) -> list[JobSummary]:
    """Newest first; one that succeeded carries `report_meta`."""
    return evaluations_of(request.user, job_id)


@of_run.post("/{int:job_id}/evaluations", response=answers(JobSummary, status=201), summary="Evaluate a run")
def evaluation_start(request: SignedIn, job_id: int, wish: EvaluationRequest) -> Status[JobSummary]:
    """Of a run that has ended. `{}` takes its best checkpoint, its own dataset, and validation and test."""
    job = evaluation_submit(request.user, job_id, wish.checkpoint, wish.dataset, wish.splits)
    return Status(201, job_summary(job, request.user))


@router.get("/{int:job_id}", response=answers(EvaluationReport), summary="The report of an evaluation")
def evaluation_report(request: SignedIn, job_id: int) -> HttpResponse:
    """Scores of every split and class, calibration and confusion. Its state while it runs is at `/jobs/{id}`."""
    report = report_of(evaluation_for(request.user, job_id))
    return HttpResponse(report.model_dump_json(), content_type="application/json")


@router.get("/{int:job_id}/predictions", response=answers(PredictionPage), summary="Single answers of an evaluation")
def evaluation_predictions(
    request: SignedIn,
    job_id: int,
    filters: Query[EvaluationFilters],
    sort: Sort = "id",
    offset: Count = 0,
    limit: Rows = 60,
) -> PredictionPage:
    """`wrong=true&sort=-loss` gives the most wrong; `label=3&predicted=5` one cell of the confusion matrix."""
    job = evaluation_for(request.user, job_id)
    return page_of(job, sort=sort, offset=offset, limit=limit, filters=filters.chosen())


@router.get(
    "/{int:job_id}/predictions.csv",
    response=answers(None),
    openapi_extra=CSV_CONTENT,
    summary="Single answers of an evaluation as CSV",
)
def evaluation_predictions_csv(
    request: SignedIn, job_id: int, filters: Query[EvaluationFilters], sort: Sort = "id"
) -> StreamingHttpResponse:
    job = evaluation_for(request.user, job_id)
    return csv_of(job, f"evaluation-{job_id}.csv", sort=sort, filters=filters.chosen())
