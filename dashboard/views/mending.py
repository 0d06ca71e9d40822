"""The buttons of a diagnosis."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.visitor import SignedIn
from jobs.services import job_mend


@require_POST
def mend(request: SignedIn, job_id: int) -> HttpResponse:
    """Start a run that failed again, with the fix of the button that was pressed."""
    job = job_mend(request.user, job_id, request.POST.get("fix", ""))
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": reverse("run", args=[job.pk])})
    return redirect("run", job.pk)
