"""Two exports or evaluations of a run side by side: on one split by their stored answers, on single images by asking.

What is stored is rendered here; ``static/js/compare.js`` asks the API about images that somebody brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.addresses import api_address
from dashboard.compared import Compared, asked_of, read_compared
from dashboard.picker import picker_of, sample_named
from dashboard.views.try_it import AT_ONCE
from dashboard.visitor import SignedIn
from jobs.access import run_for
from jobs.comparison import Side, side_of, sides_of, usual_sides
from wire.errors import FoveaError
from wire.serving import MAX_REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class Choice:
    """Which two, and of which; where no two can be, which one is left."""

    sides: Sequence[Side]
    a: Side | None
    b: Side | None

    @property
    def able(self) -> list[Side]:
        return [side for side in self.sides if not side.why_not]


@dataclass(frozen=True, slots=True)
class Result:
    """What the stored answers say, or why they say nothing."""

    compared: Compared | None = None
    problem: FoveaError | None = None


@require_GET
@never_cache
def compare(request: SignedIn, job_id: int) -> HttpResponse:
    run = run_for(request.user, job_id)
    choice = _choice(request, job_id)
    picker, why_no_picker = picker_of(request.user, run)
    context = {
        "nav": "home",
        "run": run,
        "choice": choice,
        "result": _result(request, choice),
        "picker": picker,
        "why_no_picker": why_no_picker,
        "data": {
            "page": reverse("compare", args=[run.pk]),
            "classify_page": reverse("classify", args=[run.pk]),
            "asked": {"predict": api_address(f"trainings/{run.pk}/predict")},
            "sides": asked_of(choice.sides),
            "sample": sample_named(request.user, request.GET),
            "at_once": AT_ONCE,
            "most_bytes": MAX_REQUEST_BYTES,
        },
    }
    return render(request, "compare/compare.html", context)


@require_GET
@never_cache
def compare_split(request: SignedIn, job_id: int) -> HttpResponse:
    """What the stored answers say, for the page to put in place."""
    run = run_for(request.user, job_id)
    page_url = reverse("compare", args=[job_id])
    if not request.htmx:
        return redirect(f"{page_url}?{request.GET.urlencode()}")
    result = _result(request, _choice(request, job_id))
    response = render(request, "compare/split.html", {"run": run, "result": result})
    # What a person may reload or pass on is the whole page, not this piece of it.
    query = result.compared.page_query if result.compared else request.GET.urlencode()
    response.headers["HX-Push-Url"] = f"{page_url}?{query}"
    return response


def _choice(request: SignedIn, run_id: int) -> Choice:
    """Raises ``NotFound`` where the address names what the run has not."""
    sides = sides_of(request.user, run_id)
    usual_a, usual_b = usual_sides(sides) or (None, None)
    named_a, named_b = (side_of(sides, key) if key else None for key in (request.GET.get("a"), request.GET.get("b")))
    # Where one is named, it is held against another one than itself.
    if named_a and not named_b and named_a == usual_b:
        usual_b = usual_a
    if named_b and not named_a and named_b == usual_a:
        usual_a = usual_b
    return Choice(sides, named_a or usual_a, named_b or usual_b)


def _result(request: SignedIn, choice: Choice) -> Result:
    if choice.a is None or choice.b is None:
        return Result()
    try:
        return Result(read_compared(request.user, choice.a, choice.b, request.GET))
    except FoveaError as problem:
        return Result(problem=problem)
