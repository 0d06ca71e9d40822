"""A dataset as the first version of Fovea wrote it: no report, and a manifest without what came later."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from engine.store.reader import DatasetReader
from engine.store.report import ReportReader
from tests.kits.training import new_job, train_once
from tests.kits.trees import encoded, noise
from wire.layout import DatasetDir

SCHEMA = """
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    split TEXT CHECK (split IN ('train', 'val', 'test')),
    label INTEGER NOT NULL CHECK (label >= 0),
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    sha256 TEXT NOT NULL
);
PRAGMA user_version = 1;
"""
INDEXES = """
CREATE INDEX samples_by_split ON samples (split, label, id);
CREATE INDEX samples_by_label ON samples (label, id);
"""


@pytest.fixture(scope="module")
def old_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = DatasetDir(tmp_path_factory.mktemp("old") / "dataset")
    folder.path.mkdir()
    images = [encoded(noise(8, 6, seed=seed)) for seed in range(24)]
    rows = [
        (id_, f"{id_}.png", "train" if id_ <= 16 else "val", id_ % 2, 8, 6, hashlib.sha256(data).hexdigest())
        for id_, data in enumerate(images, start=1)
    ]
    with closing(sqlite3.connect(folder.samples_path)) as samples:
        samples.executescript(SCHEMA)
        samples.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        samples.executescript(INDEXES)
    with (
        closing(lmdb.open(str(folder.images_path), subdir=False, lock=False)) as stored,
        stored.begin(write=True) as transaction,
    ):
        for id_, data in enumerate(images, start=1):
            transaction.put(id_.to_bytes(8, "big"), data)
    digest = hashlib.sha256(
        "".join(f"{id_}\t{split}\t{label}\t{sha256}\n" for id_, _, split, label, _, _, sha256 in rows).encode()
    )
    side = {"min": 6, "median": 6, "max": 8}
    manifest = {
        "schema_version": 1,
        "name": "old",
        "task": "classification",
        "classes": ["cat", "dog"],
        "counts": {"train": [8, 8], "val": [4, 4]},
        "width_px": side,
        "height_px": side,
        "colour": "rgb",
        "mean": [0.5, 0.5, 0.5],
        "std": [0.3, 0.3, 0.3],
        "image_bytes": sum(map(len, images)),
        "samples_sha256": digest.hexdigest(),
        "source": {"kind": "folder", "path": "/old", "format": "folder"},
        "licence": "",
        "n_found": 25,
        "refused": [{"name": "notes.txt", "reason": "it has no image's file ending"}],
        "created_at": "2026-01-01T00:00:00Z",
        "fovea_version": "",
        "notes": [],
    }
    folder.manifest_path.write_text(json.dumps(manifest))
    return folder.path


def test_it_is_read(old_dataset):
    with DatasetReader(old_dataset) as reader, ReportReader(old_dataset) as report:
        assert reader.manifest.schema_version == 1
        assert reader.manifest.n_images() == 24
        assert reader.manifest.refused[0].name == "notes.txt"
        assert (reader.manifest.left_out, reader.manifest.warnings, reader.manifest.options) == ({}, (), {})
        assert (report.entries(), report.count(), report.counts()) == ([], 0, {})


@pytest.mark.slow
def test_it_trains(old_dataset, tmp_path):
    assert train_once(new_job(tmp_path / "job", old_dataset, epochs=1)) == "succeeded"
