"""Exports of a run: what they are worth, what is handed out, and the form that starts more of them."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.addresses import id_of
from dashboard.export_rows import ExportLine, ExportLines, export_lines
from dashboard.forms.export_form import ExportForm
from dashboard.visitor import SignedIn
from jobs.access import run_for
from jobs.exports import export_for, export_row
from jobs.models import Job
from jobs.services import (
    Submitted,
    export_override,
    export_override_end,
    export_request_of,
    exports_submit,
    run_id_of,
)
from jobs.services.exports import MOST_REASON
from jobs.states import ENDED, Status
from wire.errors import DiskFull, FoveaError, UserError


@dataclass(frozen=True)
class ExportPage:
    """What the templates in ``templates/export/`` are given."""

    run: Job
    lines: ExportLines
    form: ExportForm

    @property
    def run_ended(self) -> bool:
        return Status(self.run.status) in ENDED


@require_http_methods(["GET", "POST"])
@never_cache
def exports(request: SignedIn, job_id: int) -> HttpResponse:
    """The verification table, what can be downloaded, and the form for more."""
    run = run_for(request.user, job_id)
    form = ExportForm(request.user, run, request.POST if request.method == "POST" else None)
    if request.method == "POST" and (wish := form.request()):
        try:
            made = exports_submit(request.user, run.pk, wish)
        except (UserError, DiskFull) as error:
            form.refuse(error)
        else:
            _say(request, made)
            return HttpResponseRedirect(reverse("exports", args=[run.pk]))
    page = ExportPage(run, export_lines(request.user, run.pk), form)
    status = 422 if request.method == "POST" else 200
    return render(request, "export/export.html", {"nav": "home", "page": page, "run": run}, status=status)


@require_GET
@never_cache
def exports_live(request: SignedIn, job_id: int) -> HttpResponse:
    """The rows that were under way when the page asked last, to be put in place of the old ones."""
    run = run_for(request.user, job_id)
    asked = {id_of(text) for text in request.GET.get("ids", "").split(",")}
    lines = export_lines(request.user, run.pk)
    changed = [line for line in lines.newest if line.row.id in asked]
    context = {
        "run": run,
        "lines": lines,
        "changed": changed,
        "ended": [line for line in changed if not line.live],
    }
    return render(request, "export/live.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
def override(request: SignedIn, job_id: int) -> HttpResponse:
    """Asks for the reason why an export that failed is handed out, or takes that back."""
    job = export_for(request.user, job_id)
    reason = request.POST.get("reason", "").strip()
    problem: FoveaError | None = None
    error = ""
    if request.method == "POST":
        try:
            if "end" in request.POST:
                export_override_end(request.user, job_id)
            elif not 0 < len(reason) <= MOST_REASON:
                error = f"Say why, in 1 to {MOST_REASON} characters."
            else:
                export_override(request.user, job_id, reason)
        except FoveaError as refused:
            problem = refused
        if not (error or problem):
            return _leave(request, job)
    line = ExportLine(export_row(job, request.user), None, None, None)
    template = "export/override.html"
    context = {"job": job, "line": line, "reason": reason, "error": error, "problem": problem, "template": template}
    return render(request, template if request.htmx else "partials/dialog_page.html", context)


@require_POST
def export_again(request: SignedIn, job_id: int) -> HttpResponse:
    """A new export to the same target with the same choices."""
    earlier = export_for(request.user, job_id)
    run_id = run_id_of(earlier)
    try:
        exports_submit(request.user, run_id, export_request_of(earlier))
    except (UserError, DiskFull) as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    return _leave(request, earlier)


def _say(request: SignedIn, made: list[Submitted]) -> None:
    n_new = sum(each.is_new for each in made)
    n_old = len(made) - n_new
    parts = []
    if n_new:
        parts.append(f"{n_new} export{'s' if n_new > 1 else ''} queued.")
    if n_old:
        parts.append(f"{n_old} {'were' if n_old > 1 else 'was'} there already and {'are' if n_old > 1 else 'is'} kept.")
    messages.success(request, " ".join(parts))


def _leave(request: SignedIn, job: Job) -> HttpResponse:
    address = reverse("exports", args=[run_id_of(job)])
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
