"""Trying the network of a run on a few images, asking why, and looking at its layers.

The server renders the page and who may be tried; ``static/js/try.js`` asks the API for answers. Images that somebody
brings stay in the browser, which sends them again with every question: nothing of them is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.addresses import api_address
from dashboard.gallery import Filter
from dashboard.picker import dataset_of_run, drawn, picker_of, sample_named
from dashboard.visitor import SignedIn
from jobs.access import run_for
from jobs.checkpoints import checkpoint_chosen
from jobs.models import Artifact, Job
from jobs.states import ENDED, Status
from jobs.tried import TriedExport, exports_to_try
from wire.serving import MAX_REQUEST_BYTES

AT_ONCE: Final = 64
"""Images that a person may try in one go."""
_ACTIONS: Final = ("predict", "explain", "layers", "layer-tiles")


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    id: int
    name: str
    epoch: float
    facts: str
    """What it is among the others; empty of most."""


@dataclass(frozen=True, slots=True)
class Networks:
    """What can be tried now; while a run goes on there may be others the next minute."""

    checkpoints: list[CheckpointChoice]
    exports: list[TriedExport]
    classes: list[str]
    live: bool
    named: str
    """The export that the address names, by its id; empty where it names none."""

    @property
    def any(self) -> bool:
        return bool(self.checkpoints) or any(not export.why_not for export in self.exports)


@require_GET
@never_cache
def try_it(request: SignedIn, job_id: int) -> HttpResponse:
    return _page(request, job_id, nothing_open=False)


@require_GET
@never_cache
def layers(request: SignedIn, job_id: int) -> HttpResponse:
    """The same page with the layers of one image open; only of an image of a dataset can an address speak."""
    return _page(request, job_id, nothing_open="sample" not in request.GET)


@require_GET
@never_cache
def checkpoints(request: SignedIn, job_id: int) -> HttpResponse:
    run = run_for(request.user, job_id)
    return render(request, "try/networks.html", {"run": run, "networks": _networks(request, run)})


@require_GET
@never_cache
def samples(request: SignedIn, job_id: int) -> HttpResponse:
    """Images of the run's dataset drawn by lot, to be taken."""
    dataset = dataset_of_run(request.user, run_for(request.user, job_id))
    with dataset.open() as reader:
        shown = Filter.of_query(request.GET, reader.manifest)
        context = {"dataset_id": dataset.job.pk, "version": dataset.version, "tiles": drawn(reader, shown)}
    return render(request, "try/samples.html", context)


def _page(request: SignedIn, job_id: int, *, nothing_open: bool) -> HttpResponse:
    run = run_for(request.user, job_id)
    found = _networks(request, run)
    picker, why_no_picker = picker_of(request.user, run)
    context = {
        "nav": "home",
        "run": run,
        "networks": found,
        "picker": picker,
        "why_no_picker": why_no_picker,
        "nothing_open": nothing_open,
        "data": {
            "page": reverse("try_it", args=[run.pk]),
            "layers_page": reverse("layers", args=[run.pk]),
            "networks_page": reverse("try_checkpoints", args=[run.pk]),
            "classify_page": reverse("classify", args=[run.pk]),
            "asked": {action: api_address(f"trainings/{run.pk}/{action}") for action in _ACTIONS},
            "classes": found.classes,
            "sample": sample_named(request.user, request.GET),
            "at_once": AT_ONCE,
            "most_bytes": MAX_REQUEST_BYTES,
        },
    }
    return render(request, "try/try_it.html", context)


def _networks(request: SignedIn, run: Job) -> Networks:
    kept = Artifact.objects.filter(made_by=run, kind="checkpoint", trashed_at=None)
    newest_first = sorted(kept, key=lambda each: (each.meta.get("step") or 0, each.pk), reverse=True)
    chosen = checkpoint_chosen(run)
    best = chosen.artifact.pk if chosen and chosen.why.startswith("Best") else None
    choices = [
        CheckpointChoice(each.pk, each.name, each.meta.get("epoch") or 0.0, _facts(newest=n == 0, best=each.pk == best))
        for n, each in enumerate(newest_first)
    ]
    classes = chosen.artifact.meta.get("classes", ()) if chosen else ()
    return Networks(
        checkpoints=choices,
        exports=exports_to_try(request.user, run.pk),
        classes=list(classes),
        live=Status(run.status) not in ENDED,
        named=request.GET.get("export", ""),
    )


def _facts(*, newest: bool, best: bool) -> str:
    return ", ".join(fact for fact, holds in (("best", best), ("newest", newest)) if holds)
