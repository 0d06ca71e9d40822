"""What can be done to jobs from any page: import, train with one click, rename, pause, resume, cancel, retry, delete.

A GET without htmx shows the same form as a page of its own, so that every action works from a plain link.
"""

from __future__ import annotations

import json

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.addresses import id_of
from dashboard.visitor import SignedIn
from engine.catalog import find_card, sample_cards
from jobs.access import job_for, visible_jobs
from jobs.models import Job
from jobs.planning import plan
from jobs.requests import ImportRequest, TrainingRequest
from jobs.selectors import devices_list
from jobs.services import (
    import_request_of,
    import_submit,
    job_annotate,
    job_cancel,
    job_pause,
    job_rename,
    job_resume,
    job_retry,
    jobs_delete,
    training_submit,
)
from jobs.summaries import summaries_of
from wire.errors import ActionRefused, NotFound
from wire.specs import Choice, FromSample

MAX_TITLE = 200
NOUNS = {"import": "import", "evaluate": "evaluation", "classify": "classification", "export": "export"}
"""What a job is called by its verb, where it is no run."""


@require_POST
def sample_import(request: SignedIn) -> HttpResponse:
    card = find_card(sample_cards(), request.POST.get("name", ""), what="sample dataset")
    import_submit(request.user, ImportRequest(name=card.label, source=FromSample(name=card.name)))
    return redirect("home")


@require_POST
def import_again(request: SignedIn, job_id: int) -> HttpResponse:
    """A new import of what an earlier one was to bring in."""
    earlier = job_for(request.user, job_id)
    if earlier.verb != "import":
        raise NotFound(f"#{job_id} is not a dataset.", hint="It is a run; train it again from its own page.")
    return redirect("dataset", import_submit(request.user, import_request_of(earlier)).pk)


@require_POST
def training_quick(request: SignedIn, job_id: int) -> HttpResponse:
    """Train on a dataset with every default."""
    dataset = job_for(request.user, job_id)
    made = dataset.artifacts.filter(kind="dataset", trashed_at=None).first()
    if made is None:
        raise ActionRefused(f"{dataset.title} has no images yet.", hint="Wait until the import has ended.")
    model, options = plan(made.meta, None, devices_list())
    job = training_submit(request.user, TrainingRequest(dataset=job_id, model=Choice(name=model), options=options))
    return redirect("run", job.pk)


@require_http_methods(["GET", "POST"])
def job_edit(request: SignedIn, job_id: int) -> HttpResponse:
    """Title and notes."""
    job = job_for(request.user, job_id, change=True)
    error = ""
    if request.method == "POST":
        title = request.POST.get("title", "").strip()
        error = "" if 0 < len(title) <= MAX_TITLE else f"A title has 1 to {MAX_TITLE} characters."
        if not error:
            job_rename(request.user, job_id, title)
            job_annotate(request.user, job_id, request.POST.get("notes", ""))
            return _leave(request, job_address(job))
    context = {"job": job, "title": request.POST.get("title", job.title), "error": error}
    return _dialog(request, "partials/job_edit.html", context)


@require_http_methods(["GET", "POST"])
def job_end(request: SignedIn, job_id: int) -> HttpResponse:
    """Asks first, then cancels; one that ended meanwhile is said in the same place."""
    job = job_for(request.user, job_id, change=True)
    refusal: ActionRefused | None = None
    if request.method == "POST":
        try:
            job_cancel(request.user, job_id)
        except ActionRefused as error:
            refusal = error
        else:
            return _leave(request, job_address(job))
    noun = NOUNS.get(job.verb, "run")
    return _dialog(request, "partials/job_cancel.html", {"job": job, "noun": noun, "refusal": refusal})


@require_POST
def job_hold(request: SignedIn, job_id: int) -> HttpResponse:
    return _done(request, job_pause(request.user, job_id))


@require_POST
def job_go_on(request: SignedIn, job_id: int) -> HttpResponse:
    return _done(request, job_resume(request.user, job_id))


@require_POST
def job_again(request: SignedIn, job_id: int) -> HttpResponse:
    """The same once more, as a new job."""
    return _to(request, job_address(job_retry(request.user, job_id)))


@require_http_methods(["GET", "POST"])
def job_delete(request: SignedIn) -> HttpResponse:
    """Asks first, with names and sizes; what stands in the way is said in the same place."""
    asked = map(id_of, request.POST.getlist("ids") or request.GET.getlist("ids"))
    ids = [job_id for job_id in asked if job_id is not None]
    refusal: ActionRefused | None = None
    if request.method == "POST":
        try:
            jobs_delete(request.user, ids)
        except ActionRefused as error:
            refusal = error
        else:
            return _leave(request, reverse("home"))
    summaries = summaries_of(visible_jobs(request.user).filter(pk__in=ids), request.user)
    total_bytes = sum(summary.disk_bytes for summary in summaries)
    # Whoever made them: they go with their run.
    seen = [summary.id for summary in summaries]
    n_parts = Job.objects.filter(part_of__in=seen, trashed_at=None).exclude(pk__in=seen).count()
    context: dict[str, object] = {
        "summaries": summaries,
        "n_parts": n_parts,
        "refusal": refusal,
        "total_bytes": total_bytes,
    }
    return _dialog(request, "partials/job_delete.html", context)


def job_address(job: Job) -> str:
    """The page of a job, whatever its verb."""
    match job.verb:
        case "train":
            return reverse("run", args=[job.pk])
        case "evaluate":
            return f"{reverse('evaluation', args=[job.part_of_id])}?job={job.pk}"
        case "classify":
            return reverse("classification", args=[job.pk])
        case "export":
            return reverse("exports", args=[job.part_of_id])
        case _:
            return reverse("dataset", args=[job.pk])


def _dialog(request: SignedIn, template: str, context: dict[str, object]) -> HttpResponse:
    context["next"] = request.GET.get("next") or request.POST.get("next") or request.htmx.current_url_abs_path or ""
    return render(request, template if request.htmx else "partials/dialog_page.html", context | {"template": template})


def _leave(request: SignedIn, otherwise: str) -> HttpResponse:
    """To where the person came from; htmx needs a header for that."""
    wanted = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return _to(request, wanted if allowed else otherwise)


def _done(request: SignedIn, job: Job) -> HttpResponse:
    """The page stays and looks at the job again; without htmx it is the job's own page."""
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Trigger": json.dumps({"fovea:changed": {"job": job.pk}})})
    return HttpResponseRedirect(job_address(job))


def _to(request: SignedIn, address: str) -> HttpResponse:
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
