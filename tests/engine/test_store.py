from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.store.reader import DatasetReader
from engine.store.writer import DatasetWriter, NewSample
from wire.errors import DatasetInvalid, DatasetMissing, DiskFull, NotFound
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest, SizeRange, SplitName

CLASSES = ("a", "b", "c")
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")
Row: TypeAlias = tuple[SplitName, int, int, int, bytes]
SAMPLES = st.lists(
    st.tuples(
        st.sampled_from(SPLITS),
        st.integers(0, len(CLASSES) - 1),
        st.integers(1, 5000),
        st.integers(1, 5000),
        st.binary(max_size=300),
    ),
    max_size=30,
)


def _manifest(writer: DatasetWriter, **changes: object) -> DatasetManifest:
    counts: dict[str, list[int]] = {}
    for split, label, n_images in writer.tally():
        counts.setdefault(split, [0] * len(CLASSES))[label] = n_images
    some = SizeRange(min=1, median=1, max=1)
    values: dict[str, object] = {
        "name": "made by a test",
        "task": "classification",
        "classes": CLASSES,
        "counts": counts,
        "width_px": some,
        "height_px": some,
        "colour": "rgb",
        "mean": (0.5, 0.5, 0.5),
        "std": (0.2, 0.2, 0.2),
        "image_bytes": writer.image_bytes,
        "samples_sha256": writer.samples_sha256(),
        "source": {"kind": "test"},
        "n_found": writer.n_samples,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return DatasetManifest(**{**values, **changes})


def _write(path: Path, samples: list[Row]) -> DatasetManifest:
    with DatasetWriter(path) as writer:
        for index, (split, label, width, height, data) in enumerate(samples):
            writer.add(NewSample(f"{label}/{index}.png", split, label, width, height, data))
        manifest = _manifest(writer)
        writer.finish(manifest)
    return manifest


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    _write(
        tmp_path / "dataset",
        [("train", index % 3, 4, 5, bytes([index])) for index in range(9)] + [("val", 1, 6, 7, b"v")],
    )
    return tmp_path / "dataset"


@settings(deadline=None, max_examples=40)
@given(SAMPLES)
def test_what_was_written_is_read(samples):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dataset"
        manifest = _write(path, samples)
        with DatasetReader(path) as reader:
            assert reader.manifest == manifest
            rows = reader.samples()
            assert [row.id for row in rows] == list(range(1, len(samples) + 1))
            for row, (split, label, width, height, data) in zip(rows, samples, strict=True):
                assert (row.split, row.label, row.width, row.height) == (split, label, width, height)
                assert reader.image_bytes(row.id) == data
            for split in SPLITS:
                assert reader.count(split) == sum(sample[0] == split for sample in samples)


def test_rows_are_filtered_and_paged(dataset):
    with DatasetReader(dataset) as reader:
        assert reader.count() == 10
        assert reader.count("train", label=1) == 3
        assert reader.count(label=1) == 4
        assert [sample.id for sample in reader.samples("train", label=1)] == [2, 5, 8]
        assert [sample.id for sample in reader.samples("train", offset=2, limit=3)] == [3, 4, 5]
        assert reader.samples("test") == []


def test_the_checksum_ignores_names_and_sees_everything_else(tmp_path):
    first: list[Row] = [("train", 0, 1, 1, b"x"), ("val", 1, 1, 1, b"y")]
    values = set()
    variants = [
        first,
        [("val", *first[0][1:]), first[1]],
        [("train", 2, 1, 1, b"x"), first[1]],
        [("train", 0, 1, 1, b"z"), first[1]],
    ]
    for number, samples in enumerate(variants):
        values.add(_write(tmp_path / str(number), samples).samples_sha256)
    assert len(values) == len(variants)
    with DatasetWriter(tmp_path / "renamed") as writer:
        for split, label, width, height, data in first:
            writer.add(NewSample(f"other/{label}", split, label, width, height, data))
        assert writer.samples_sha256() in values


def test_images_larger_than_the_first_map_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.store.writer._FIRST_MAP_BYTES", 64 * 1024)
    images = [os.urandom(50_000) for _ in range(20)]
    _write(tmp_path / "dataset", [("train", 0, 1, 1, data) for data in images])
    with DatasetReader(tmp_path / "dataset") as reader:
        assert [reader.image_bytes(id_) for id_ in range(1, 21)] == images


def test_few_images_wait_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.store.writer._COMMIT_BYTES", 100)
    with DatasetWriter(tmp_path / "dataset") as writer:
        for index in range(50):
            writer.add(NewSample(str(index), "train", 0, 1, 1, bytes(30)))
            assert len(writer._waiting) < 4


def _add_many(writer: DatasetWriter) -> None:
    for index in range(5000):
        writer.add(NewSample(f"a name of some length {index}", "train", 0, 1, 1, b"x"))


def test_a_full_disk_has_its_name_when_rows_meet_it(tmp_path):
    with DatasetWriter(tmp_path / "dataset") as writer:
        writer._rows.execute("PRAGMA max_page_count = 20")  # SQLite says of this what it says of a full disk
        with pytest.raises(DiskFull, match="disk is full"):
            _add_many(writer)


def test_a_full_disk_has_its_name_when_images_meet_it(tmp_path):
    class Full:
        def begin(self, **_: object) -> None:
            raise lmdb.DiskError("images.lmdb: No space left on device")

        def close(self) -> None:
            pass

    with DatasetWriter(tmp_path / "dataset") as writer:
        writer._images.close()
        writer._images = Full()
        with pytest.raises(DiskFull, match="disk is full"):
            _add_many(writer)


def test_two_readers_of_one_process_share_the_images(dataset):
    with DatasetReader(dataset) as first:
        with DatasetReader(dataset) as second:
            assert first.image_bytes(1) == second.image_bytes(1)
        assert first.image_bytes(2) == b"\x01"
    with DatasetReader(dataset) as again:
        assert again.image_bytes(3) == b"\x02"


def test_threads_may_share_a_reader(dataset):
    seen: list[tuple[int, bytes]] = []
    with DatasetReader(dataset) as reader:

        def read() -> None:
            seen.extend((sample.id, reader.image_bytes(sample.id)) for sample in reader.samples("train"))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(seen) == sorted([(index + 1, bytes([index])) for index in range(9)] * 4)


def test_reading_writes_nothing(dataset):
    dataset.chmod(0o555)
    try:
        before = {path.name: path.stat().st_mtime_ns for path in dataset.iterdir()}
        with DatasetReader(dataset) as reader:
            reader.samples()
            reader.image_bytes(1)
        assert {path.name: path.stat().st_mtime_ns for path in dataset.iterdir()} == before
    finally:
        dataset.chmod(0o755)


def test_a_path_with_signs_of_the_web_is_a_path(tmp_path):
    folder = tmp_path / "50% of #1? yes"
    _write(folder / "dataset", [("train", 0, 1, 1, b"x")])
    with DatasetReader(folder / "dataset") as reader:
        assert reader.count() == 1
        assert reader.image_bytes(1) == b"x"


@pytest.mark.parametrize("sample_id", [0, 11, -1])
def test_an_image_that_is_not_there_is_not_found(dataset, sample_id):
    with DatasetReader(dataset) as reader, pytest.raises(NotFound, match=str(sample_id)):
        reader.image_bytes(sample_id)


def test_a_missing_dataset_says_so(tmp_path):
    with pytest.raises(DatasetMissing, match="no dataset"):
        DatasetReader(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetMissing, match="no dataset"):
        DatasetReader(tmp_path / "empty")


def test_a_manifest_that_is_none_is_damage(dataset):
    manifest_path = DatasetDir(dataset).manifest_path
    manifest_path.write_text(manifest_path.read_text().replace('"rgb"', '"infrared"'))
    with pytest.raises(DatasetInvalid, match="colour"):
        DatasetReader(dataset)
    manifest_path.write_text("{")
    with pytest.raises(DatasetInvalid, match=r"manifest\.json"):
        DatasetReader(dataset)


@pytest.mark.parametrize("part", ["samples.sqlite", "images.lmdb"])
def test_a_missing_part_is_damage(dataset, part):
    (dataset / part).unlink()
    with pytest.raises(DatasetInvalid, match=part):
        DatasetReader(dataset)


def test_damaged_parts_are_damage(dataset):
    (dataset / "samples.sqlite").write_bytes(b"not a database, though it is long enough to be one" * 20)
    (dataset / "images.lmdb").write_bytes(b"no map of images either" * 1000)
    with DatasetReader(dataset) as reader:
        with pytest.raises(DatasetInvalid, match=r"samples\.sqlite"):
            reader.samples()
        with pytest.raises(DatasetInvalid, match=r"images\.lmdb"):
            reader.image_bytes(1)


def test_a_new_dataset_is_of_the_second_version(dataset):
    with sqlite3.connect(dataset / "samples.sqlite") as rows:
        assert rows.execute("PRAGMA user_version").fetchone() == (2,)
        indexes = {name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE name LIKE 'samples_by%'")}
    rows.close()
    assert indexes == {"samples_by_name", "samples_by_split", "samples_by_split_id", "samples_by_label"}


def test_samples_that_leave_are_gone_and_their_ids_with_them(tmp_path):
    with DatasetWriter(tmp_path / "dataset") as writer:
        for index in range(6):
            writer.add(NewSample(f"{index}.png", "train", index % 2, 1, 1, bytes([index // 4])))
        writer.begin_choosing()
        writer.mark_duplicates()
        assert [(one.id, one.same_as, one.same_as_name) for one in writer.marked()] == [
            (3, 1, "0.png"), (4, 2, "1.png"),
        ]  # fmt: skip
        writer.drop_marked()
        assert list(writer.marked()) == []
        assert (writer.n_samples, writer.image_bytes) == (4, 4)
        assert list(writer.conflicts()) == [("0.png", "1.png"), ("4.png", "5.png")]
        writer.finish(_manifest(writer))
    with DatasetReader(tmp_path / "dataset") as reader:
        assert [sample.id for sample in reader.samples()] == [1, 2, 5, 6]
        assert [reader.image_bytes(sample.id) for sample in reader.samples()] == [b"\0", b"\0", b"\1", b"\1"]
        with pytest.raises(NotFound):
            reader.image_bytes(3)


def test_others_can_read_the_files(dataset):
    """The formats are public ones: any SQLite, any LMDB."""
    with sqlite3.connect(dataset / "samples.sqlite") as rows:
        assert rows.execute("SELECT count(*) FROM samples WHERE split = 'val'").fetchone() == (1,)
    rows.close()
    copy = shutil.copy(dataset / "images.lmdb", dataset.parent)
    with lmdb.open(copy, subdir=False, readonly=True, lock=False) as images, images.begin() as transaction:
        assert transaction.get((10).to_bytes(8, "big")) == b"v"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("engine.store.reader", ["torch", "numpy", "PIL", "lmdb"]),
        ("engine.store.writer", ["torch", "numpy", "PIL"]),
        ("engine.store.report", ["torch", "numpy", "PIL", "lmdb"]),
        ("engine.importing.worker", ["torch", "lmdb", "sqlite3"]),
        ("engine.importing.pipeline", ["torch", "sklearn"]),
        ("engine.formats.folder.reader", ["torch", "numpy", "PIL"]),
        ("engine.formats.samples.digits", ["torch", "sklearn"]),
        ("engine.data.cache", ["torch"]),
        ("engine.preview", ["torch"]),
    ],
)
def test_a_fresh_interpreter_stays_light(module, absent):
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
