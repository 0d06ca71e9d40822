from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.store.report import ReportReader, ReportWriter
from engine.store.writer import DatasetWriter
from wire.errors import DatasetInvalid, DiskFull
from wire.layout import DatasetDir


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A folder with rows of no samples, as far as a report needs it."""
    with DatasetWriter(tmp_path / "dataset") as writer:
        writer.finish_rows()
    return tmp_path / "dataset"


@pytest.fixture
def written(dataset: Path) -> Path:
    report = ReportWriter(dataset)
    report.add("cat/broken.png", "refused", "damaged: cut short", label="cat")
    report.add(".DS_Store", "ignored", "it was left behind by an operating system")
    report.add("cat/100%_sure.png", "refused", "the file is empty", label="cat")
    report.add("train/cat/0.png", "leak", "the same bytes as val/cat/9.png", label="cat", same_as=77, kept=True)
    assert report.n_left_out == {"refused": 2, "ignored": 1}
    assert report.n_flagged == 1
    report.finish()
    return dataset


def test_entries_come_in_the_order_in_which_they_were_met(written):
    with ReportReader(written) as report:
        entries = report.entries()
        assert [entry.id for entry in entries] == [1, 2, 3, 4]
        assert (entries[0].name, entries[0].kind, entries[0].label, entries[0].kept) == (
            "cat/broken.png", "refused", "cat", False,
        )  # fmt: skip
        assert entries[1].label is None
        assert entries[3].kept
        assert report.counts() == {"ignored": 1, "leak": 1, "refused": 2}


def test_a_twin_that_is_not_in_the_dataset_is_not_named(written):
    with ReportReader(written) as report:
        assert report.entries("leak")[0].same_as is None


@pytest.mark.parametrize(
    ("kind", "q", "ids"),
    [
        ("refused", "", [1, 3]),
        (None, "broken", [1]),
        (None, "EMPTY", [3]),
        (None, "100%_s", [3]),
        (None, "%", [3]),
        ("ignored", "cat", []),
        (None, "cat", [1, 3, 4]),
    ],
)
def test_entries_are_filtered_by_kind_and_text(written, kind, q, ids):
    with ReportReader(written) as report:
        assert [entry.id for entry in report.entries(kind, q)] == ids
        assert report.count(kind, q) == len(ids)
        assert [entry.id for entry in report.entries(kind, q, offset=1, limit=1)] == ids[1:2]


def test_a_dataset_of_the_first_version_has_no_entries(tmp_path):
    with ReportReader(tmp_path) as report:
        assert (report.entries(), report.count(), report.counts()) == ([], 0, {})


def test_a_damaged_report_is_damage(written):
    DatasetDir(written).report_path.write_bytes(b"not a database, though it is long enough to be one" * 50)
    with ReportReader(written) as report, pytest.raises(DatasetInvalid, match=r"report\.sqlite cannot be read"):
        report.entries()


def test_a_full_disk_has_its_name(dataset):
    report = ReportWriter(dataset)
    report._rows.execute("PRAGMA max_page_count = 8")
    with pytest.raises(DiskFull):
        _add_many(report)
    report.close()


def _add_many(report: ReportWriter) -> None:
    for index in range(5000):
        report.add(f"a name of some length {index}", "refused", "damaged")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=20))
def test_any_names_are_read_as_they_were_written(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("report")
    with DatasetWriter(folder / "dataset") as writer:
        writer.finish_rows()
    printable = [tuple(text.encode(errors="replace").decode() for text in row) for row in rows]
    report = ReportWriter(folder / "dataset")
    for name, reason in printable:
        report.add(name, "refused", reason)
    report.finish()
    with ReportReader(folder / "dataset") as reader:
        assert [(entry.name, entry.reason) for entry in reader.entries()] == printable
