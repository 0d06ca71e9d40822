"""Trying the network of a run on a few images, asking why, and looking at its layers.

The server renders the page and who may be tried; ``static/js/try.js`` asks the API for answers. Images that somebody
brings stay in the browser, which sends them again with every question: nothing of them is stored.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.gallery import (
    SPLIT_LABELS,
    ClassChoice,
    Filter,
    StoredDataset,
    Tile,
    class_choices,
    stored_dataset,
    stored_dataset_of,
)
from dashboard.visitor import SignedIn
from engine.store.reader import DatasetReader
from jobs.access import may_change, run_for
from jobs.checkpoints import checkpoint_chosen
from jobs.lineage import dataset_trained_on
from jobs.models import Artifact, Job
from jobs.states import ENDED, Status
from wire.errors import FoveaError, NotFound
from wire.manifests import SplitName
from wire.serving import MAX_REQUEST_BYTES

N_PICKED: Final = 18
"""Images that the picker shows at once."""
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
class Checkpoints:
    """What can be tried now; while a run goes on there may be others the next minute."""

    choices: list[CheckpointChoice]
    classes: list[str]
    live: bool


@dataclass(frozen=True, slots=True)
class Picker:
    """Where images of the run's dataset are taken from."""

    dataset_id: int
    splits: list[tuple[SplitName, str]]
    classes: list[ClassChoice]
    shown: Filter


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
    return render(request, "try/checkpoints.html", {"run": run, "checkpoints": _checkpoints(run)})


@require_GET
@never_cache
def samples(request: SignedIn, job_id: int) -> HttpResponse:
    """Images of the run's dataset drawn by lot, to be taken."""
    dataset = _dataset(request, run_for(request.user, job_id))
    with dataset.open() as reader:
        shown = Filter.of_query(request.GET, reader.manifest)
        context = {"dataset_id": dataset.job.pk, "version": dataset.version, "tiles": _drawn(reader, shown)}
    return render(request, "try/samples.html", context)


def _page(request: SignedIn, job_id: int, *, nothing_open: bool) -> HttpResponse:
    run = run_for(request.user, job_id)
    found = _checkpoints(run)
    picker, why_no_picker = _picker(request, run)
    context = {
        "nav": "home",
        "run": run,
        "checkpoints": found,
        "picker": picker,
        "why_no_picker": why_no_picker,
        "nothing_open": nothing_open,
        "data": {
            "page": reverse("try_it", args=[run.pk]),
            "layers_page": reverse("layers", args=[run.pk]),
            "checkpoints_page": reverse("try_checkpoints", args=[run.pk]),
            "classify_page": reverse("classify", args=[run.pk]),
            "asked": {action: f"/api/v1/trainings/{run.pk}/{action}" for action in _ACTIONS},
            "classes": found.classes,
            "sample": _sample_named(request),
            "at_once": AT_ONCE,
            "most_bytes": MAX_REQUEST_BYTES,
        },
    }
    return render(request, "try/try_it.html", context)


def _checkpoints(run: Job) -> Checkpoints:
    kept = Artifact.objects.filter(made_by=run, kind="checkpoint", trashed_at=None)
    newest_first = sorted(kept, key=lambda each: (each.meta.get("step") or 0, each.pk), reverse=True)
    chosen = checkpoint_chosen(run)
    best = chosen.artifact.pk if chosen and chosen.why.startswith("Best") else None
    choices = [
        CheckpointChoice(each.pk, each.name, each.meta.get("epoch") or 0.0, _facts(newest=n == 0, best=each.pk == best))
        for n, each in enumerate(newest_first)
    ]
    classes = chosen.artifact.meta.get("classes", ()) if chosen else ()
    return Checkpoints(choices, list(classes), Status(run.status) not in ENDED)


def _facts(*, newest: bool, best: bool) -> str:
    return ", ".join(fact for fact, holds in (("best", best), ("newest", newest)) if holds)


def _dataset(request: SignedIn, run: Job) -> StoredDataset:
    """What the run was trained on.

    Raises:
        NotFound: it was deleted, or this user may not see it.
    """
    used = dataset_trained_on(run)
    if used is None:
        raise NotFound(f"The dataset of {run.title} is not there any more.", hint="Bring images of your own.")
    owner_only = used.made_by.private and not may_change(request.user, used.made_by)
    if owner_only:
        raise NotFound(f"The dataset of {run.title} is private.", hint="Bring images of your own.")
    return stored_dataset_of(used.made_by)


def _picker(request: SignedIn, run: Job) -> tuple[Picker | None, str]:
    """Or why there is none."""
    try:
        dataset = _dataset(request, run)
        with dataset.open() as reader:
            manifest = reader.manifest
    except FoveaError as problem:
        return None, f"{problem.message} {problem.hint}".strip()
    splits = [(name, label) for name, label in SPLIT_LABELS.items() if sum(manifest.counts.get(name, ()))]
    # What nothing was learnt from says more.
    unseen = next((name for name, _ in reversed(splits)), None)
    return Picker(dataset.job.pk, splits, class_choices(manifest), Filter(split=unseen)), ""


def _drawn(reader: DatasetReader, shown: Filter) -> list[Tile]:
    """Cost: one query an image, whatever the size of the dataset."""
    n_samples = reader.count(shown.split, label=shown.label)
    places = random.sample(range(n_samples), min(N_PICKED, n_samples))
    found = [reader.samples(shown.split, label=shown.label, offset=place, limit=1) for place in places]
    return [Tile(sample, reader.manifest.classes[sample.label]) for rows in found for sample in rows]


def _sample_named(request: SignedIn) -> dict[str, Any] | None:
    """The image that an address asks to be tried.

    Raises:
        NotFound: there is none such for this user.
    """
    dataset_id, sample_id = request.GET.get("dataset", ""), request.GET.get("sample", "")
    if not (_is_id(dataset_id) and _is_id(sample_id)):
        return None
    dataset = stored_dataset(request.user, int(dataset_id))
    with dataset.open() as reader:
        sample = reader.sample(int(sample_id))
        truth = reader.manifest.classes[sample.label]
    picture = f"{reverse('dataset_image', args=[dataset.job.pk, sample.id])}?px=512&v={dataset.version}"
    return {"dataset": dataset.job.pk, "id": sample.id, "name": sample.name, "truth": truth, "picture": picture}


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16
