"""What became of every file of an import: counts that add up, and a row for each that was left out or flagged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlencode

from django.http import QueryDict

from dashboard.errors import RequestInvalid
from dashboard.gallery import Pager, StoredDataset, text_of
from engine.store.reader import Sample
from engine.store.report import ReportEntry, ReportReader
from wire.manifests import DatasetManifest, ReportKind

CSV_HEADER: Final = ("name", "reason", "explanation", "class", "same_as", "in_dataset")
ENTRIES_A_READ: Final = 2000
KIND_LABELS: Final[dict[ReportKind, str]] = {
    "refused": "Refused",
    "ignored": "Ignored",
    "duplicate": "Exact duplicate",
    "leak": "In training and in validation or test",
    "class_not_chosen": "Class not chosen",
    "class_too_small": "Class too small",
    "over_maximum": "Over the maximum of its class",
}
KIND_HELP: Final[dict[ReportKind, str]] = {
    "refused": "Not an image that can be read, or not safe to read.",
    "ignored": "Left behind by an operating system.",
    "duplicate": "Byte for byte the same as another file of the class.",
    "leak": "The same picture on both sides makes the accuracy look better than it is.",
    "class_not_chosen": "The import was told to keep other classes.",
    "class_too_small": "The class has fewer images than the import asked for.",
    "over_maximum": "The class has more images than the import asked for; these were not drawn.",
}


@dataclass(frozen=True, slots=True)
class KindCount:
    kind: ReportKind
    label: str
    help: str
    n_files: int


@dataclass(frozen=True, slots=True)
class Tally:
    """``n_found`` is ``n_images`` and every ``left_out`` together."""

    n_found: int
    n_images: int
    left_out: list[KindCount]
    n_flagged: int


@dataclass(frozen=True, slots=True)
class Entry:
    row: ReportEntry
    kind_label: str
    same_as: Sample | None
    """The image of the dataset that it equals."""


@dataclass(frozen=True, slots=True)
class ReportFilter:
    kind: ReportKind | None = None
    q: str = ""

    @property
    def active(self) -> bool:
        return self != ReportFilter()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What stands in an address that asks for this."""
        return [(name, value) for name, value in (("kind", self.kind), ("q", self.q)) if value]

    @property
    def query(self) -> str:
        return urlencode(self.pairs)


def filter_of_query(query: QueryDict) -> ReportFilter:
    return ReportFilter(kind_of(query.get("kind", "")), text_of(query.get("q", "")))


def kind_of(name: str) -> ReportKind | None:
    """The kind that an address names.

    Raises:
        RequestInvalid: there is none of this name.
    """
    for known in KIND_LABELS:
        if name == known:
            return known
    if not name:
        return None
    raise RequestInvalid(f"There is no kind {name!r}.", hint=f"Choose of: {', '.join(get_args(ReportKind))}.")


def tally_of(manifest: DatasetManifest) -> Tally:
    counts = dict(manifest.left_out)
    if manifest.schema_version < 2 and manifest.refused:
        counts = {"refused": len(manifest.refused)}
    return Tally(manifest.n_found, manifest.n_images(), _in_words(counts), manifest.n_flagged)


def _in_words(counts: Mapping[ReportKind, int]) -> list[KindCount]:
    """Kinds that there are any of, in the order of ``KIND_LABELS``."""
    return [
        KindCount(kind, label, KIND_HELP[kind], n_files)
        for kind, label in KIND_LABELS.items()
        if (n_files := counts.get(kind, 0))
    ]


@dataclass(frozen=True, slots=True)
class ReportPage:
    """What ``templates/datasets/report.html`` is given."""

    shown: ReportFilter
    page: Pager
    entries: list[Entry]
    kinds: list[KindCount]
    """Those that the report has rows of, kept ones included."""


def report_page(dataset: StoredDataset, query: QueryDict) -> ReportPage:
    """Cost: two or three queries of the report, one of the samples."""
    shown = filter_of_query(query)
    with ReportReader(dataset.path) as report:
        counts = report.counts()
        n_shown = report.count(kind=shown.kind, q=shown.q)
        page = Pager.of_query(query.get("page", ""), n_shown)
        rows = report.entries(kind=shown.kind, q=shown.q, offset=page.offset, limit=page.page_size)
    return ReportPage(shown, page, _with_pictures(dataset, rows), _in_words(counts))


def _with_pictures(dataset: StoredDataset, rows: list[ReportEntry]) -> list[Entry]:
    wanted = [row.same_as for row in rows if row.same_as is not None]
    samples: dict[int, Sample] = {}
    if wanted:
        with dataset.open() as reader:
            samples = {sample.id: sample for sample in reader.samples_named(wanted)}
    return [Entry(row, KIND_LABELS[row.kind], samples.get(row.same_as or 0)) for row in rows]


def csv_rows(path: Path, shown: ReportFilter) -> Iterator[tuple[object, ...]]:
    """Rows below ``CSV_HEADER``, read a few at a time."""
    with closing(ReportReader(path)) as report:
        offset = 0
        while entries := report.entries(kind=shown.kind, q=shown.q, offset=offset, limit=ENTRIES_A_READ):
            for entry in entries:
                yield (entry.name, entry.kind, entry.reason, entry.label, entry.same_as, entry.kept)
            offset += len(entries)
