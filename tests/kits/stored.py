"""Datasets on disk for tests of those who read them: some with pictures and a report, some of rows alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import lmdb

from engine.store import reader
from engine.store.report import ReportWriter
from engine.store.writer import _INDEXES, _SCHEMA, DatasetWriter, NewSample
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest, ReportKind, SizeRange, SplitName


class Row(NamedTuple):
    """One image to be stored; ids count from 1."""

    name: str
    split: SplitName
    label: int
    data: bytes = b"no image"
    width: int = 32
    height: int = 24


class Reported(NamedTuple):
    name: str
    kind: ReportKind
    reason: str = "of a test"
    label: str | None = None
    same_as: int | None = None
    kept: bool = False


def store(path: Path, classes: Sequence[str], rows: Sequence[Row], report: Sequence[Reported] = ()) -> DatasetManifest:
    path.parent.mkdir(parents=True, exist_ok=True)
    with DatasetWriter(path) as writer, closing(ReportWriter(path)) as reported:
        for row in rows:
            writer.add(NewSample(row.name, row.split, row.label, row.width, row.height, row.data))
        for entry in report:
            also: Any = {"label": entry.label, "same_as": entry.same_as, "kept": entry.kept}
            reported.add(entry.name, entry.kind, entry.reason, **also)
        counts = {split: [0] * len(classes) for split, _, _ in writer.tally()}
        for split, label, n_images in writer.tally():
            counts[split][label] = n_images
        manifest = manifest_of(
            classes,
            counts,
            width_px=writer.size_range("width"),
            height_px=writer.size_range("height"),
            samples_sha256=writer.samples_sha256(),
            n_found=len(rows) + reported.n_left_out.total(),
            left_out=dict(reported.n_left_out),
            n_flagged=reported.n_flagged,
        )
        writer.finish(manifest)
        reported.finish()
    return manifest


def store_rows(path: Path, n_images: int, *, n_classes: int = 10) -> None:
    """Rows without images: every fifth is for validation, classes lie one behind the other."""
    path.mkdir(parents=True)
    lmdb.open(str(DatasetDir(path).images_path), subdir=False, lock=False).close()
    with closing(sqlite3.connect(DatasetDir(path).samples_path)) as rows:
        rows.executescript(_SCHEMA)
        rows.execute(
            "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?1) "
            "INSERT INTO samples SELECT id, printf('train/class_%d/%06d.png', (id - 1) * ?2 / ?1, id), "
            "CASE id % 5 WHEN 0 THEN 'val' ELSE 'train' END, (id - 1) * ?2 / ?1, 32 + id % 7, 32, 'hash' FROM n",
            (n_images, n_classes),
        )
        rows.commit()
        rows.executescript(_INDEXES)
        counts: dict[SplitName, list[int]] = {"train": [0] * n_classes, "val": [0] * n_classes}
        for split, label, n in rows.execute("SELECT split, label, count(*) FROM samples GROUP BY 1, 2"):
            counts[split][label] = n
    manifest = manifest_of([f"class_{label}" for label in range(n_classes)], counts, n_found=n_images)
    DatasetDir(path).manifest_path.write_text(manifest.model_dump_json())


def manifest_of(classes: Sequence[str], counts: Any, **values: Any) -> DatasetManifest:
    some = SizeRange(min=32, median=32, max=38)
    plain: dict[str, Any] = {
        "name": "made by a test",
        "task": "classification",
        "classes": tuple(classes),
        "counts": {split: tuple(each) for split, each in counts.items()},
        "width_px": some,
        "height_px": some,
        "colour": "rgb",
        "mean": (0.5, 0.5, 0.5),
        "std": (0.2, 0.2, 0.2),
        "image_bytes": 1,
        "samples_sha256": "0" * 64,
        "source": {"kind": "test"},
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return DatasetManifest(**plain | values)


@contextmanager
def statements_counted() -> Iterator[list[str]]:
    """Every statement that readers of datasets run meanwhile."""
    seen: list[str] = []
    connect: Callable[[Path], sqlite3.Connection] = reader._connect

    def traced(path: Path) -> sqlite3.Connection:
        rows = connect(path)
        rows.set_trace_callback(seen.append)
        return rows

    with mock.patch.object(reader, "_connect", traced):
        yield seen
