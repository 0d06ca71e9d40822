"""Files that other programs run: what a run is exported to, what those files answer, and who answers for them."""

from __future__ import annotations

from django.http import HttpResponse
from ninja import Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.api.bodies import answers
from dashboard.api.catalog import CardOut
from dashboard.visitor import SignedIn
from engine.catalog import backend_cards
from jobs.exports import ExportRow, export_for, export_report_of, export_row, exports_of
from jobs.models import Job
from jobs.requests import ExportRequest
from jobs.services import export_override, export_override_end, exports_submit
from jobs.services.exports import MOST_REASON
from wire.cards import BackendCard
from wire.exports import ExportReport
from wire.specs import ExportPrecision

of_run = Router()
"""Below `/trainings`."""
router = Router()
backends = Router()


class ExportStarted(Schema):
    export: ExportRow
    is_new: bool
    """False where an equal one waits, runs or is there already, which is then this one."""


class OverrideReason(Schema):
    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=1, max_length=MOST_REASON)
    """Why the files may be used all the same; it stands in the bundle, with your name."""


class BackendOut(CardOut):
    precisions: list[ExportPrecision]
    needs_cuda: bool
    """Without a GPU its models are built and not run."""
    licence: str
    missing: list[str]
    """Modules that are not installed here; with one of them it cannot be chosen."""


@backends.get("", response=answers(list[BackendOut]), summary="What a network can be exported to")
def backends_list(request: SignedIn) -> list[BackendCard]:
    return list(backend_cards().values())


@of_run.get("/{int:job_id}/exports", response=answers(list[ExportRow]), summary="Exports of a run")
def exports_list(request: SignedIn, job_id: int) -> list[ExportRow]:
    """The newest of each target first, then the earlier ones."""
    return exports_of(request.user, job_id)


@of_run.post(
    "/{int:job_id}/exports", response=answers(list[ExportStarted], status=201), summary="Export a run to one or more"
)
def exports_start(request: SignedIn, job_id: int, wish: ExportRequest) -> Status[list[ExportStarted]]:
    """A job for each target, in their order; those of a run that still trains wait for it.

    Where an equal export is there already it is given back instead.
    """
    submitted = exports_submit(request.user, job_id, wish)
    return Status(201, [ExportStarted(export=_row(each.job, request), is_new=each.is_new) for each in submitted])


@router.get("/{int:job_id}", response=answers(ExportReport), summary="The report of an export")
def export_report(request: SignedIn, job_id: int) -> HttpResponse:
    """Files, verdict, agreement with PyTorch and speed. Its state while it runs is at `/jobs/{id}`."""
    report = export_report_of(export_for(request.user, job_id))
    return HttpResponse(report.model_dump_json(), content_type="application/json")


@router.post("/{int:job_id}/override", response=answers(ExportRow), summary="Answer for an export that failed")
def export_override_set(request: SignedIn, job_id: int, wish: OverrideReason) -> ExportRow:
    """Its files may then be downloaded; the reason goes with them. For the run's owner and administrators."""
    return _row(export_override(request.user, job_id, wish.reason), request)


@router.delete("/{int:job_id}/override", response=answers(ExportRow), summary="Take that back")
def export_override_remove(request: SignedIn, job_id: int) -> ExportRow:
    return _row(export_override_end(request.user, job_id), request)


def _row(export: Job, request: SignedIn) -> ExportRow:
    return export_row(export, request.user)
