"""A dataset that is looked at: which pictures a filter leaves, page by page. Pages and API share this."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import QueryDict

from dashboard.errors import RequestInvalid
from engine.store.reader import DatasetReader, Sample
from jobs.access import job_for
from jobs.models import Artifact, Job
from jobs.storage import storage
from wire.errors import DatasetMissing, NotFound
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest, SplitName

PAGE_SIZE: Final = 60
MOST_TEXT: Final = 200
SMALL_PX: Final = 64
MOST_CLASSES_TO_CHOOSE: Final = 2000
"""In the list of the filter; a class beyond is found by the text, which its folder's name is part of."""
SPLIT_LABELS: Final[dict[SplitName, str]] = {"train": "Training", "val": "Validation", "test": "Test"}


def import_for(user: User, job_id: int) -> Job:
    """The import, if the user may see it.

    Raises:
        NotFound: there is none for this user, or it is a run.
    """
    job = job_for(user, job_id)
    if job.verb != "import":
        raise NotFound(f"#{job_id} is not a dataset.", hint="It is a run; look for it on the home page.")
    return job


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """Where the files of a dataset lie, for somebody who may see them."""

    job: Job
    path: Path
    sha256: str

    @property
    def dir(self) -> DatasetDir:
        return DatasetDir(self.path)

    @property
    def version(self) -> str:
        """Stands in the addresses of pictures, which browsers keep for a year."""
        return self.sha256[:8]

    def open(self) -> DatasetReader:
        return DatasetReader(self.path)


def stored_dataset(user: User, job_id: int) -> StoredDataset:
    """Cost: two queries.

    Raises:
        NotFound: there is no such import for this user.
        DatasetMissing: the import has made no dataset.
    """
    return stored_dataset_of(import_for(user, job_id))


def stored_dataset_of(job: Job) -> StoredDataset:
    made = Artifact.objects.filter(made_by=job, kind="dataset", trashed_at=None).first()
    if made is None:
        raise DatasetMissing(
            f"{job.title} (#{job.pk}) has no images: its import is {job.status}.",
            hint="Wait until the import has succeeded, or import the images again.",
        )
    return StoredDataset(job, storage().job(job.pk).resolve(made.path), made.sha256)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which pictures are shown: those of a split, of a class, with a text in their name."""

    split: SplitName | None = None
    label: int | None = None
    q: str = ""

    @classmethod
    def of_query(cls, query: QueryDict, manifest: DatasetManifest) -> Self:
        """What an address asks for.

        Raises:
            RequestInvalid: no such split or class.
        """
        return cls(
            _split(query.get("split", "")), _label(query.get("class", ""), manifest), text_of(query.get("q", ""))
        )

    @property
    def active(self) -> bool:
        return self != Filter()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What stands in an address that asks for this."""
        values = {"split": self.split, "class": self.label, "q": self.q}
        return [(name, str(value)) for name, value in values.items() if value not in (None, "")]

    @property
    def query(self) -> str:
        return urlencode(self.pairs)


def text_of(typed: str) -> str:
    return typed.strip()[:MOST_TEXT]


def _split(name: str) -> SplitName | None:
    for known in SPLIT_LABELS:
        if name == known:
            return known
    if not name:
        return None
    raise RequestInvalid(f"There is no split {name!r}.", hint=f"Choose of: {', '.join(SPLIT_LABELS)}.")


def _label(number: str, manifest: DatasetManifest) -> int | None:
    if not number:
        return None
    if number.isdecimal() and len(number) < 10 and int(number) < len(manifest.classes):
        return int(number)
    raise RequestInvalid(
        f"There is no class {number!r}.", hint=f"Classes are counted from 0 to {len(manifest.classes) - 1}."
    )


@dataclass(frozen=True, slots=True)
class Pager:
    """One page of a list, and the way to the others. ``number`` counts from 1; one too high is the last."""

    number: int
    n_items: int
    page_size: int = PAGE_SIZE

    @classmethod
    def of_query(cls, typed: str, n_items: int, *, page_size: int = PAGE_SIZE) -> Self:
        number = int(typed) if typed.isdecimal() and len(typed) < 10 else 1
        page = cls(1, n_items, page_size)
        return replace(page, number=max(1, min(number, page.n_pages)))

    @property
    def n_pages(self) -> int:
        return max(1, -(-self.n_items // self.page_size))

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.page_size

    @property
    def first(self) -> int:
        """The number of the first item on this page, counted from 1."""
        return min(self.offset + 1, self.n_items)

    @property
    def last(self) -> int:
        return min(self.offset + self.page_size, self.n_items)

    @property
    def previous(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        return self.number + 1 if self.number < self.n_pages else None

    @property
    def links(self) -> list[tuple[str, str, int | None]]:
        """Name of the icon, words, and the page that it leads to; None where that is this one."""
        return [
            ("chevrons-left", "First page", 1 if self.previous else None),
            ("chevron-left", "Previous page", self.previous),
            ("chevron-right", "Next page", self.next),
            ("chevrons-right", "Last page", self.n_pages if self.next else None),
        ]


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture of the gallery."""

    sample: Sample
    class_name: str

    @property
    def split_label(self) -> str:
        return SPLIT_LABELS[self.sample.split]

    @property
    def small(self) -> bool:
        """Drawn larger than it is, so that its pixels had better stay squares."""
        return max(self.sample.width, self.sample.height) <= SMALL_PX


@dataclass(frozen=True, slots=True)
class ClassChoice:
    label: int
    name: str
    n_images: int


@dataclass(frozen=True, slots=True)
class Gallery:
    """What ``templates/datasets/gallery.html`` is given."""

    dataset_id: int
    version: str
    shown: Filter
    page: Pager
    tiles: list[Tile]
    n_all: int
    splits: list[tuple[SplitName, str]]
    classes: list[ClassChoice]

    @property
    def query(self) -> str:
        return self.shown.query

    @property
    def page_query(self) -> str:
        """With the page, as an address that a person keeps."""
        page = [("page", str(self.page.number))] if self.page.number > 1 else []
        return urlencode([*self.shown.pairs, *page])


def gallery_of(dataset: StoredDataset, reader: DatasetReader, query: QueryDict) -> Gallery:
    """Cost: one query of the samples, two where a text is looked for."""
    manifest = reader.manifest
    shown = Filter.of_query(query, manifest)
    n_shown = reader.count(shown.split, label=shown.label, q=shown.q)
    page = Pager.of_query(query.get("page", ""), n_shown)
    samples = reader.samples(shown.split, label=shown.label, q=shown.q, offset=page.offset, limit=page.page_size)
    return Gallery(
        dataset_id=dataset.job.pk,
        version=dataset.version,
        shown=shown,
        page=page,
        tiles=[Tile(sample, manifest.classes[sample.label]) for sample in samples],
        n_all=manifest.n_images(),
        splits=[(name, label) for name, label in SPLIT_LABELS.items() if name in manifest.counts],
        classes=class_choices(manifest),
    )


def class_choices(manifest: DatasetManifest) -> list[ClassChoice]:
    totals = [sum(counts) for counts in zip(*manifest.counts.values(), strict=True)]
    return [
        ClassChoice(label, name, n_images)
        for label, (name, n_images) in enumerate(zip(manifest.classes, totals, strict=True))
    ][:MOST_CLASSES_TO_CHOOSE]
