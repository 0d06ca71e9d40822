"""The bundle of a run, as a page's form asks for it."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from dashboard.addresses import id_of
from dashboard.api.bundles import bundle_answer
from dashboard.errors import RequestInvalid
from dashboard.visitor import SignedIn


@require_GET
def bundle(request: SignedIn, job_id: int) -> HttpResponseBase:
    """``?export=1&export=2``: what was ticked."""
    ids = [id_of(text) for text in request.GET.getlist("export")]
    if None in ids:
        raise RequestInvalid("An export is no number.", hint="Choose the exports on the page of the run.")
    return bundle_answer(request, job_id, [each for each in ids if each is not None])
