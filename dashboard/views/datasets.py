"""The page of one dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.gallery import SPLIT_LABELS, Gallery, StoredDataset, gallery_of, import_for, stored_dataset_of
from dashboard.origin import origin_of
from dashboard.visitor import SignedIn
from jobs.access import visible_jobs
from jobs.lineage import dataset_spec_path
from jobs.models import Job
from jobs.selectors import JobSummary, job_summary, notices_of
from jobs.states import ENDED, Status
from jobs.summaries import summaries_of
from wire.errors import FoveaError


@dataclass(frozen=True, slots=True)
class SplitRow:
    name: str
    label: str
    n_images: int
    share: float


@dataclass(frozen=True, slots=True)
class Channel:
    name: str
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class Contents:
    """What is read from the files of a dataset; where they are damaged, why they cannot be."""

    gallery: Gallery | None = None
    has_mean_image: bool = False
    version: str = ""
    problem: FoveaError | None = None


@require_GET
def dataset(request: SignedIn, job_id: int) -> HttpResponse:
    job = import_for(request.user, job_id)
    row = job_summary(job, request.user)
    piece = request.htmx and not request.htmx.history_restore_request
    if piece and row.ended_at:
        return HttpResponse(headers={"HX-Refresh": "true"})
    meta = row.dataset_meta or {}
    context = {
        "nav": "datasets",
        "job": job,
        "row": row,
        "meta": row.dataset_meta,
        "splits": _splits(meta),
        "channels": _channels(meta),
        "n_left_out": meta.get("n_found", 0) - meta.get("n_images", 0),
        "runs": _runs_on(request, job),
        "notices": notices_of(job),
        "warnings": meta.get("warnings", ()),
        "origin": origin_of(request.user, job),
        "contents": _contents(request, job) if meta else Contents(),
        "again_url": _again_url(job),
        "image": request.GET.get("image", ""),
        "live": Status(row.status) not in ENDED,
        "unfinished": row.status in ENDED - {Status.SUCCEEDED},
    }
    return render(request, "datasets/state.html" if piece else "datasets/dataset.html", context)


def _splits(meta: dict[str, Any]) -> list[SplitRow]:
    n_all = meta.get("n_images") or 1
    counts: dict[str, int] = meta.get("counts", {})
    return [
        SplitRow(name, label, counts[name], counts[name] / n_all)
        for name, label in SPLIT_LABELS.items()
        if name in counts
    ]


def _channels(meta: dict[str, Any]) -> list[Channel]:
    names = ("Grey",) if meta.get("colour") == "grey" else ("Red", "Green", "Blue")
    values = zip(names, meta.get("mean", ()), meta.get("std", ()), strict=False)  # grey is there three times
    return [Channel(name, mean, std) for name, mean, std in values]


def _contents(request: SignedIn, job: Job) -> Contents:
    try:
        stored: StoredDataset = stored_dataset_of(job)
        with stored.open() as reader:
            gallery = gallery_of(stored, reader, request.GET)
    except FoveaError as problem:
        return Contents(problem=problem)
    return Contents(gallery, stored.dir.mean_image_path.is_file(), stored.version)


def _runs_on(request: SignedIn, job: Job) -> list[JobSummary]:
    """Runs that used this dataset or wait for it, newest first."""
    runs = visible_jobs(request.user).filter(verb="train", spec__dataset=dataset_spec_path(job.pk))
    return summaries_of(runs.order_by("-pk"), request.user)


def _again_url(job: Job) -> str:
    return f"{reverse('new_dataset')}?again={job.pk}"
