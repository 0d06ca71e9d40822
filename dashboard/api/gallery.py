"""The pictures of a dataset, its classes, and the report of its import."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import Router, Schema
from pydantic import Field

from dashboard.api.bodies import answers
from dashboard.csv_rows import csv_response
from dashboard.gallery import MOST_TEXT, StoredDataset, stored_dataset
from dashboard.import_report import CSV_HEADER, ReportFilter, csv_rows, tally_of
from dashboard.pictures import KEPT, LEAST_PX, MOST_PX, original_answer, picture_answer
from dashboard.visitor import SignedIn
from engine.store.reader import Sample
from wire.manifests import DatasetManifest, ReportKind, SplitName

router = Router()

Id: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Label: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
Text: TypeAlias = Annotated[str, Field(max_length=MOST_TEXT)]
Limit: TypeAlias = Annotated[int, Field(ge=1, le=1000)]
Px: TypeAlias = Annotated[int, Field(ge=LEAST_PX, le=MOST_PX)]
BYTES = {"schema": {"type": "string", "format": "binary"}}


def _answers_with(*types: str) -> dict[str, object]:
    """For the document: an answer that is no JSON."""
    return {"responses": {200: {"content": dict.fromkeys(types, BYTES)}}}


class SampleInfo(Schema):
    id: int
    name: str
    """Its path where it was imported from."""
    split: SplitName
    label: int
    class_name: str
    width_px: int
    height_px: int
    sha256: str
    """Of the file as it was imported."""
    picture: str
    """Where to get it, drawn for a screen."""
    original: str
    """Where to download the file as it was imported."""


class SamplePage(Schema):
    n_samples: int
    """That the filter leaves, over all pages."""
    offset: int
    samples: list[SampleInfo]


class SampleDetail(SampleInfo):
    """One image and where it lies among those that the filter leaves."""

    previous: int | None
    next: int | None
    n_before: int
    n_samples: int


class ClassInfo(Schema):
    label: int
    name: str
    counts: dict[SplitName, int]
    n_images: int


class SizeCount(Schema):
    width_px: int
    height_px: int
    n_images: int


class ImageSizes(Schema):
    """How many images there are of which size; sizes of one square of `bin_px` are counted together."""

    bin_px: int
    sizes: list[SizeCount]


class ReportRow(Schema):
    id: int
    name: str
    kind: ReportKind
    reason: str
    class_name: str | None
    same_as: int | None
    """The image of the dataset that this one equals."""
    kept: bool
    """It is in the dataset all the same."""


class ImportReport(Schema):
    """`n_found` is `n_images` and every `left_out` together; `n_flagged` of the images are in the report as well."""

    n_found: int
    n_images: int
    left_out: dict[ReportKind, int]
    n_flagged: int
    n_rows: int
    """That the filter leaves, over all pages."""
    offset: int
    rows: list[ReportRow]


@router.get("/{int:job_id}/samples", response=answers(SamplePage), summary="Images of a dataset")
def dataset_samples(
    request: SignedIn,
    job_id: int,
    split: SplitName | None = None,
    label: Label | None = None,
    q: Text = "",
    offset: Id = 0,
    limit: Limit = 60,
) -> SamplePage:
    """In the order of their ids; `label` counts classes from 0, `q` stands somewhere in the name."""
    dataset = stored_dataset(request.user, job_id)
    with dataset.open() as reader:
        found = reader.samples(split, label=label, q=q, offset=offset, limit=limit)
        return SamplePage(
            n_samples=reader.count(split, label=label, q=q),
            offset=offset,
            samples=[SampleInfo(**_facts(dataset, reader.manifest, sample)) for sample in found],
        )


@router.get("/{int:job_id}/samples/{int:sample_id}", response=answers(SampleDetail), summary="One image")
def dataset_sample(
    request: SignedIn,
    job_id: int,
    sample_id: int,
    split: SplitName | None = None,
    label: Label | None = None,
    q: Text = "",
) -> SampleDetail:
    """With the images before and after it among those that the filter leaves."""
    dataset = stored_dataset(request.user, job_id)
    with dataset.open() as reader:
        facts = _facts(dataset, reader.manifest, reader.sample(sample_id))
        around = reader.neighbours(sample_id, split, label=label, q=q)
        n_samples = reader.count(split, label=label, q=q)
    return SampleDetail(
        **facts, previous=around.previous, next=around.next, n_before=around.n_before, n_samples=n_samples
    )


@router.get(
    "/{int:job_id}/samples/{int:sample_id}/picture",
    response=answers(None),
    openapi_extra=_answers_with("image/png", "image/webp"),
    summary="One image, drawn for a screen",
)
def dataset_sample_picture(request: SignedIn, job_id: int, sample_id: int, px: Px | None = None) -> HttpResponseBase:
    """Re-encoded, its longest side at most `px`; never enlarged. It may be kept: a dataset does not change."""
    return picture_answer(request, stored_dataset(request.user, job_id), sample_id, px)


@router.get(
    "/{int:job_id}/samples/{int:sample_id}/original",
    response=answers(None),
    openapi_extra=_answers_with("application/octet-stream"),
    summary="One image as it was imported",
)
def dataset_sample_original(request: SignedIn, job_id: int, sample_id: int) -> HttpResponse:
    """Byte for byte, as a download."""
    return original_answer(stored_dataset(request.user, job_id), sample_id)


@router.get("/{int:job_id}/classes", response=answers(list[ClassInfo]), summary="Classes of a dataset")
def dataset_classes(request: SignedIn, job_id: int) -> list[ClassInfo]:
    """In the order of their labels, with images by split."""
    with stored_dataset(request.user, job_id).open() as reader:
        manifest = reader.manifest
    return [_class_info(manifest, label) for label in range(len(manifest.classes))]


@router.get("/{int:job_id}/sizes", response=answers(ImageSizes), summary="Sizes of the images")
def dataset_sizes(request: SignedIn, job_id: int) -> HttpResponse:
    """At most 64 steps along each side, so that it can be drawn however many images there are."""
    with stored_dataset(request.user, job_id).open() as reader:
        bin_px, bins = reader.sizes()
    sizes = [SizeCount(width_px=each.width_px, height_px=each.height_px, n_images=each.n_images) for each in bins]
    body = ImageSizes(bin_px=bin_px, sizes=sizes).model_dump_json()
    return HttpResponse(body, content_type="application/json", headers={"Cache-Control": KEPT})


@router.get("/{int:job_id}/report", response=answers(ImportReport), summary="Report of an import")
def dataset_report(
    request: SignedIn,
    job_id: int,
    kind: ReportKind | None = None,
    q: Text = "",
    offset: Id = 0,
    limit: Limit = 60,
) -> ImportReport:
    """What became of every file that was found: counts that add up, and a row for each that was left out or flagged."""
    from engine.store.report import ReportReader

    dataset = stored_dataset(request.user, job_id)
    with dataset.open() as reader:
        tally = tally_of(reader.manifest)
    with ReportReader(dataset.path) as report:
        n_rows = report.count(kind=kind, q=q)
        entries = report.entries(kind=kind, q=q, offset=offset, limit=limit)
    return ImportReport(
        n_found=tally.n_found,
        n_images=tally.n_images,
        left_out={each.kind: each.n_files for each in tally.left_out},
        n_flagged=tally.n_flagged,
        n_rows=n_rows,
        offset=offset,
        rows=[
            ReportRow(
                id=entry.id,
                name=entry.name,
                kind=entry.kind,
                reason=entry.reason,
                class_name=entry.label,
                same_as=entry.same_as,
                kept=entry.kept,
            )
            for entry in entries
        ],
    )


@router.get(
    "/{int:job_id}/report.csv",
    response=answers(None),
    openapi_extra={"responses": {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}},
    summary="Report of an import as CSV",
)
def dataset_report_csv(
    request: SignedIn, job_id: int, kind: ReportKind | None = None, q: Text = ""
) -> StreamingHttpResponse:
    """Every row; a text that a spreadsheet would run as a formula begins with an apostrophe."""
    dataset = stored_dataset(request.user, job_id)
    return csv_response(f"dataset-{job_id}-report.csv", CSV_HEADER, csv_rows(dataset.path, ReportFilter(kind, q)))


def _facts(dataset: StoredDataset, manifest: DatasetManifest, sample: Sample) -> dict[str, Any]:
    place = [dataset.job.pk, sample.id]
    return {
        "id": sample.id,
        "name": sample.name,
        "split": sample.split,
        "label": sample.label,
        "class_name": manifest.classes[sample.label],
        "width_px": sample.width,
        "height_px": sample.height,
        "sha256": sample.sha256,
        "picture": f"{reverse('api:dataset_sample_picture', args=place)}?v={dataset.version}",
        "original": reverse("api:dataset_sample_original", args=place),
    }


def _class_info(manifest: DatasetManifest, label: int) -> ClassInfo:
    counts = {split: per_class[label] for split, per_class in manifest.counts.items()}
    return ClassInfo(label=label, name=manifest.classes[label], counts=counts, n_images=sum(counts.values()))
