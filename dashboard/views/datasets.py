"""The page of one dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.previews import N_PICTURES, Look, PreviewError, pictures_of
from dashboard.visitor import SignedIn
from jobs.access import job_for, visible_jobs
from jobs.lineage import dataset_spec_path
from jobs.models import Job
from jobs.selectors import JobSummary, job_summary, notices_of
from jobs.states import ENDED, Status
from jobs.summaries import summaries_of
from wire.errors import NotFound

SPLIT_LABELS = {"train": "Training", "val": "Validation", "test": "Test"}


@dataclass(frozen=True, slots=True)
class SplitRow:
    label: str
    n_images: int
    share: float


@require_GET
def dataset(request: SignedIn, job_id: int) -> HttpResponse:
    job = _import_of(request, job_id)
    row = job_summary(job, request.user)
    if request.htmx and row.ended_at:
        return HttpResponse(headers={"HX-Refresh": "true"})
    meta = row.dataset_meta or {}
    context = {
        "nav": "datasets",
        "job": job,
        "row": row,
        "meta": row.dataset_meta,
        "splits": _splits(meta),
        "n_more_classes": meta.get("n_classes", 0) - len(meta.get("classes", ())),
        "runs": _runs_on(request, job),
        "notices": notices_of(job),
        "live": Status(row.status) not in ENDED,
        "unfinished": row.status in ENDED - {Status.SUCCEEDED},
    }
    return render(request, "datasets/state.html" if request.htmx else "datasets/dataset.html", context)


@require_GET
def pictures(request: SignedIn, job_id: int) -> HttpResponse:
    """A few images of the dataset; made by the engine the first time, hence asked for by the page when it is there."""
    job = _import_of(request, job_id)
    try:
        tiles = pictures_of(job.pk, Look.of_dataset(job_summary(job).dataset_meta or {}), n=N_PICTURES)
    except PreviewError as error:
        return render(request, "training/previews.html", {"error": str(error)})
    return render(request, "training/previews.html", {"tiles": tiles})


def _import_of(request: SignedIn, job_id: int) -> Job:
    job = job_for(request.user, job_id)
    if job.verb != "import":
        raise NotFound(f"#{job_id} is not a dataset.", hint="It is a run; look for it on the home page.")
    return job


def _splits(meta: dict[str, Any]) -> list[SplitRow]:
    n_all = meta.get("n_images") or 1
    counts: dict[str, int] = meta.get("counts", {})
    return [
        SplitRow(label, counts[name], counts[name] / n_all) for name, label in SPLIT_LABELS.items() if name in counts
    ]


def _runs_on(request: SignedIn, job: Job) -> list[JobSummary]:
    """Runs that used this dataset or wait for it, newest first."""
    runs = visible_jobs(request.user).filter(verb="train", spec__dataset=dataset_spec_path(job.pk))
    return summaries_of(runs.order_by("-pk"), request.user)
