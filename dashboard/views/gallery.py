"""The pictures of a dataset, page by page, and the report of its import."""

from __future__ import annotations

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.csv_rows import csv_response
from dashboard.gallery import gallery_of, stored_dataset
from dashboard.import_report import CSV_HEADER, csv_rows, filter_of_query, report_page, tally_of
from dashboard.pictures import mean_answer, original_answer, picture_answer, px_of
from dashboard.visitor import SignedIn


@require_GET
def gallery(request: SignedIn, job_id: int) -> HttpResponse:
    """One page of pictures, for the page of the dataset to put in place."""
    dataset = stored_dataset(request.user, job_id)
    page_url = reverse("dataset", args=[job_id])
    if not request.htmx:
        return redirect(f"{page_url}?{request.GET.urlencode()}" if request.GET else page_url)
    with dataset.open() as reader:
        made = gallery_of(dataset, reader, request.GET)
    response = render(request, "datasets/gallery.html", {"gallery": made})
    # What a person may reload or pass on is the whole page, not this piece of it.
    response.headers["HX-Push-Url"] = f"{page_url}?{made.page_query}" if made.page_query else page_url
    return response


@require_GET
def image(request: SignedIn, job_id: int, sample_id: int) -> HttpResponseBase:
    px = px_of(request.GET.get("px", ""))
    return picture_answer(request, stored_dataset(request.user, job_id), sample_id, px)


@require_GET
def original(request: SignedIn, job_id: int, sample_id: int) -> HttpResponse:
    return original_answer(stored_dataset(request.user, job_id), sample_id)


@require_GET
def mean_image(request: SignedIn, job_id: int) -> HttpResponseBase:
    return mean_answer(request, stored_dataset(request.user, job_id))


@require_GET
def report(request: SignedIn, job_id: int) -> HttpResponse:
    """What became of every file that the import found."""
    dataset = stored_dataset(request.user, job_id)
    with dataset.open() as reader:
        manifest = reader.manifest
    context = {
        "nav": "datasets",
        "job": dataset.job,
        "version": dataset.version,
        "tally": tally_of(manifest),
        "has_rows": dataset.dir.report_path.is_file(),
        "report": report_page(dataset, request.GET),
    }
    whole = not request.htmx or request.htmx.history_restore_request
    return render(request, "datasets/report.html" if whole else "datasets/report_rows.html", context)


@require_GET
def report_csv(request: SignedIn, job_id: int) -> HttpResponseBase:
    """Every row that the filter leaves, whatever the page."""
    dataset = stored_dataset(request.user, job_id)
    shown = filter_of_query(request.GET)
    return csv_response(f"dataset-{job_id}-report.csv", CSV_HEADER, csv_rows(dataset.path, shown))
