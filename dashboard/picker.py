"""Images of a run's dataset for somebody to take, and the one that an address names: for trying and comparing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import User
from django.http import QueryDict
from django.urls import reverse

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
from engine.store.reader import DatasetReader
from jobs.access import may_change
from jobs.lineage import dataset_trained_on
from jobs.models import Job
from wire.errors import FoveaError, NotFound
from wire.manifests import SplitName

N_PICKED: Final = 18
"""Images that the picker shows at once."""


@dataclass(frozen=True, slots=True)
class Picker:
    """Where images of the run's dataset are taken from."""

    dataset_id: int
    splits: list[tuple[SplitName, str]]
    classes: list[ClassChoice]
    shown: Filter


def dataset_of_run(user: User, run: Job) -> StoredDataset:
    """What the run was trained on.

    Raises:
        NotFound: it was deleted, or this user may not see it.
    """
    used = dataset_trained_on(run)
    if used is None:
        raise NotFound(f"The dataset of {run.title} is not there any more.", hint="Bring images of your own.")
    owner_only = used.made_by.private and not may_change(user, used.made_by)
    if owner_only:
        raise NotFound(f"The dataset of {run.title} is private.", hint="Bring images of your own.")
    return stored_dataset_of(used.made_by)


def picker_of(user: User, run: Job) -> tuple[Picker | None, str]:
    """Where images are taken from, or a sentence why nowhere."""
    try:
        dataset = dataset_of_run(user, run)
        with dataset.open() as reader:
            manifest = reader.manifest
    except FoveaError as problem:
        return None, f"{problem.message} {problem.hint}".strip()
    splits = [(name, label) for name, label in SPLIT_LABELS.items() if sum(manifest.counts.get(name, ()))]
    # What nothing was learnt from says more.
    unseen = next((name for name, _ in reversed(splits)), None)
    return Picker(dataset.job.pk, splits, class_choices(manifest), Filter(split=unseen)), ""


def drawn(reader: DatasetReader, shown: Filter) -> list[Tile]:
    """Cost: one query an image, whatever the size of the dataset."""
    n_samples = reader.count(shown.split, label=shown.label)
    places = random.sample(range(n_samples), min(N_PICKED, n_samples))
    found = [reader.samples(shown.split, label=shown.label, offset=place, limit=1) for place in places]
    return [Tile(sample, reader.manifest.classes[sample.label]) for rows in found for sample in rows]


def sample_named(user: User, query: QueryDict) -> dict[str, Any] | None:
    """The image that an address asks to be tried.

    Raises:
        NotFound: there is none such for this user.
    """
    dataset_id, sample_id = query.get("dataset", ""), query.get("sample", "")
    if not (_is_id(dataset_id) and _is_id(sample_id)):
        return None
    dataset = stored_dataset(user, int(dataset_id))
    with dataset.open() as reader:
        sample = reader.sample(int(sample_id))
        truth = reader.manifest.classes[sample.label]
    picture = f"{reverse('dataset_image', args=[dataset.job.pk, sample.id])}?px=512&v={dataset.version}"
    return {"dataset": dataset.job.pk, "id": sample.id, "name": sample.name, "truth": truth, "picture": picture}


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16
