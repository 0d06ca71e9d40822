"""Many images classified by the network of a run: starting it, and what came of it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.classified import table_of, tops_of
from dashboard.forms.classify_form import ClassifyForm, EarlierClassification, earlier_classification
from dashboard.visitor import SignedIn
from jobs.access import run_for
from jobs.evaluations import classification_for, classifications_of, predictions_reader
from jobs.models import Artifact, Job
from jobs.selectors import JobSummary, job_summary, notices_of
from jobs.services import classification_submit
from jobs.states import ENDED, Status
from wire.errors import DiskFull, NotFound, UserError


@require_http_methods(["GET", "POST"])
@never_cache
def classify(request: SignedIn, job_id: int) -> HttpResponse:
    """Start one, and those of earlier."""
    run = run_for(request.user, job_id)
    form = _form(request, run)
    if request.method == "POST" and (wish := form.request()):
        try:
            return redirect("classification", classification_submit(request.user, wish).pk)
        except (UserError, DiskFull) as error:
            form.refuse(error)
    rows = classifications_of(request.user, run.pk)
    context = {
        "nav": "home",
        "run": run,
        "form": form,
        "rows": rows,
        "live": any(Status(row.status) not in ENDED for row in rows),
        "checkpoints": _checkpoints(run),
        "ended": Status(run.status) in ENDED,
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "classify/new.html", context, status=status)


@require_GET
@never_cache
def classification(request: SignedIn, job_id: int) -> HttpResponse:
    """Its progress, then what it found. htmx asks for the progress, for the table or for the surest of each class."""
    job = classification_for(request.user, job_id)
    row = job_summary(job, request.user)
    piece = request.htmx and not request.htmx.history_restore_request
    if piece and request.htmx.target != "gallery":
        if row.ended_at:
            return HttpResponse(headers={"HX-Refresh": "true"})
        return render(request, "classify/state.html", {"row": row})
    context: dict[str, Any] = {"row": row, "view": "top" if request.GET.get("view") == "top" else "table"}
    if row.report_meta is not None:
        context |= _answers(request, job, row)
    if piece:
        return render(request, f"classify/{context['view']}.html", context)
    context |= {"nav": "home", "job": job, "notices": notices_of(job), "run_id": job.part_of_id}
    return render(request, "classify/classification.html", context)


def _answers(request: SignedIn, job: Job, row: JobSummary) -> dict[str, Any]:
    """The table or the surest of each class; or why there is neither."""
    meta = row.report_meta or {}
    has_truth = bool(meta.get("n_with_truth", 1))
    try:
        reader = predictions_reader(job)
    except NotFound as problem:
        return {"problem": problem}
    with reader:
        if request.GET.get("view") == "top":
            return {"tops": tops_of(reader, request.GET), "has_truth": has_truth}
        return {"table": table_of(reader, request.GET, has_truth=has_truth), "has_truth": has_truth}


def _form(request: SignedIn, run: Job) -> ClassifyForm:
    if request.method == "POST":
        data = request.POST.dict()
        earlier = _earlier(request, data.get("again", ""))
        return ClassifyForm(request.user, run, data.get("from", ""), data, earlier)
    earlier = _earlier(request, request.GET.get("again", ""))
    return ClassifyForm(request.user, run, request.GET.get("from", ""), None, earlier)


def _earlier(request: SignedIn, job_id: str) -> EarlierClassification | None:
    is_id = job_id.isascii() and job_id.isdecimal() and len(job_id) < 16
    return earlier_classification(request.user, int(job_id)) if is_id else None


def _checkpoints(run: Job) -> list[Artifact]:
    """Newest first."""
    kept = Artifact.objects.filter(made_by=run, kind="checkpoint", trashed_at=None)
    return sorted(kept, key=lambda each: (each.meta.get("step") or 0, each.pk), reverse=True)
