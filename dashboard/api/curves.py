"""What a job said while it ran: events, curves and log."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Annotated

from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from ninja import Router
from pydantic import Field

from dashboard.api.bodies import Count, Page, answers
from dashboard.csv_rows import csv_cell
from dashboard.visitor import SignedIn
from jobs.access import job_for
from jobs.models import Job
from jobs.selectors import CurvesSnapshot, LogChunk, curves_read, events_after, log_read
from wire.events import Envelope

router = Router()

JSON = "application/json"
EVERY_POINT = 2**62


@router.get("/{int:job_id}/events", response=answers(list[Envelope]), summary="Events")
def job_events(request: SignedIn, job_id: int, after: Count = 0, limit: Page = 1000) -> HttpResponse:
    """Events whose `seq` is greater than `after`, in order, as they were written; fewer than `limit` where they end."""
    return HttpResponse(events_after(job_for(request.user, job_id), after, limit), content_type=JSON)


@router.get("/{int:job_id}/curves", response=answers(CurvesSnapshot), summary="Curves")
def job_curves(request: SignedIn, job_id: int, max_points: Page = 1000, series: str = "") -> HttpResponse:
    """All curves up to `last_seq`, thinned so that every spike survives; `series` names some, with commas between."""
    job = job_for(request.user, job_id)
    snapshot = curves_read(job, names=_names(series), max_points=max_points)
    return HttpResponse(snapshot.model_dump_json(), content_type=JSON)


@router.get(
    "/{int:job_id}/curves.csv",
    response=answers(None),
    openapi_extra={"responses": {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}},
    summary="Curves as CSV",
)
def job_curves_csv(request: SignedIn, job_id: int, series: str = "") -> StreamingHttpResponse:
    """Every point; a value that is not finite is an empty cell."""
    job = job_for(request.user, job_id)
    names = list(job.series.order_by("name").values_list("name", flat=True))
    wanted = _names(series)
    chosen = names if wanted is None else [name for name in names if name in wanted]
    response = StreamingHttpResponse(_csv(job, chosen), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="run-{job_id}-curves.csv"'
    return response


@router.get("/{int:job_id}/log", response=answers(LogChunk), summary="Log")
def job_log(
    request: SignedIn,
    job_id: int,
    attempt: Annotated[int, Field(ge=1)] | None = None,
    tail: Annotated[int, Field(ge=0, le=2**20)] | None = None,
    offset: Count | None = None,
) -> LogChunk:
    """The last `tail` bytes of the latest attempt's log, or what stands from `offset` on; ask again from `end`."""
    return log_read(job_for(request.user, job_id), attempt=attempt, tail_bytes=tail, offset=offset)


def _names(series: str) -> list[str] | None:
    return [name for name in series.split(",") if name] or None


async def _csv(job: Job, names: list[str]) -> AsyncIterator[str]:
    yield _lines([("series", "unit", "step", "time", "value")])
    for name in names:
        points = (await sync_to_async(curves_read)(job, names=[name], max_points=EVERY_POINT)).series[name]
        label, unit = csv_cell(name), csv_cell(points.unit)
        yield _lines(
            (label, unit, step, datetime.fromtimestamp(at, UTC).isoformat(), "" if value is None else repr(value))
            for step, at, value in zip(points.step, points.at, points.value, strict=True)
        )


def _lines(rows: Iterable[tuple[object, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
