"""The store of predictions: filters, orders, ties, and no query that reads what it need not."""

from __future__ import annotations

import math
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from engine.store.predictions import Prediction, PredictionsReader, PredictionsWriter, Thumbnail, _where
from wire.errors import DiskFull, NotFound
from wire.layout import PredictionsDir

CLASSES = ("cat", "dog", 'it\'s "quoted" 🐈')
SORTS = ("id", "-confidence", "loss", "-loss", "name", "truth_probability")


def _prediction(id_: int, **changes) -> Prediction:
    known = {
        "split": "val", "sample": 100 + id_, "name": f"val/cat/{id_}.png", "label": 0, "predicted": 0,
        "confidence": 0.9, "truth_probability": 0.9, "loss": 0.1, "error": None, "top": ((0, 0.9), (1, 0.1)),
    }  # fmt: skip
    return Prediction(id=id_, **{**known, **changes})


def _written(folder: Path, predictions, thumbnails=()) -> Path:
    folder.mkdir(parents=True)
    with PredictionsWriter(PredictionsDir(folder).predictions_path, CLASSES) as writer:
        writer.add(predictions)
        for id_, thumbnail in thumbnails:
            writer.add_thumbnail(id_, thumbnail)
        writer.finish()
    return folder


def _drawn(count: int) -> list[Prediction]:
    draw = random.Random(3)  # noqa: S311
    rows = []
    for id_ in range(1, count + 1):
        label = draw.choice([None, 0, 1, 2])
        unreadable = draw.random() < 0.1
        predicted = None if unreadable else draw.randrange(3)
        confidence = None if unreadable else round(draw.random(), 1)  # with ties
        has_truth = label is not None and not unreadable
        rows.append(
            _prediction(
                id_,
                split=draw.choice(["val", "test"]),
                name=draw.choice(["a", "B", "c_d", "50%", "x\\y", "it's 🐈"]) + str(draw.randrange(40)),
                label=label,
                predicted=predicted,
                confidence=confidence,
                truth_probability=round(draw.random(), 1) if has_truth else None,
                loss=round(draw.random() * 5, 1) if has_truth else None,
                error="the file is empty" if unreadable else None,
                top=() if predicted is None else ((predicted, confidence), ((predicted + 1) % 3, 0.05)),
            )
        )
    return rows


@pytest.fixture(scope="module")
def rows() -> list[Prediction]:
    return _drawn(400)


@pytest.fixture(scope="module")
def reader(rows, tmp_path_factory):
    with PredictionsReader(_written(tmp_path_factory.mktemp("store") / "made", rows)) as reader:
        yield reader


def _expected(rows, sort, **filters):
    """The slow way."""
    kept = [
        row
        for row in rows
        if all(value is None or getattr(row, name) == value for name, value in filters.items() if name != "q")
        and filters.get("q", "").lower() in row.name.lower()
    ]
    column = sort.removeprefix("-")
    down = sort.startswith("-")
    known = [row for row in kept if getattr(row, column) is not None]
    unknown = [row for row in kept if getattr(row, column) is None]
    known.sort(key=lambda row: (getattr(row, column), row.id), reverse=down)
    unknown.sort(key=lambda row: row.id, reverse=down)
    return known + unknown


def test_what_went_in_comes_out(reader, rows):
    assert reader.page(limit=1000) == rows
    assert reader.get(7) == rows[6]
    assert reader.get(0) is reader.get(401) is reader.get(2**80) is None
    assert reader.classes == CLASSES


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"split": "test"},
        {"label": 1},
        {"predicted": 2},
        {"label": 1, "predicted": 2, "split": "val"},
        {"wrong": True},
        {"wrong": False, "split": "val"},
        {"q": "B1"},
        {"q": "_"},
        {"q": "%"},
        {"q": "\\"},
        {"q": "it's 🐈"},
        {"q": "nowhere"},
    ],
    ids=str,
)
def test_pages_are_those_of_the_slow_way(sort, filters, reader, rows):
    expected = _expected(rows, sort, **filters)
    assert reader.page(sort=sort, limit=1000, **filters) == expected
    assert reader.page(sort=sort, limit=20, offset=30, **filters) == expected[30:50]
    assert reader.count(**filters) == len(expected)
    assert list(reader.iterate(sort=sort, **filters)) == expected


def test_the_surest_of_a_class_come_first(reader, rows):
    for label in range(3):
        sure = [(dict(row.top)[label], row.id) for row in rows if label in dict(row.top)]
        expected = [id_ for _, id_ in sorted(sure, reverse=True)[:25]]
        assert [row.id for row in reader.top_of_class(label, 25)] == expected
    assert reader.top_of_class(3, 25) == []


def test_a_row_without_truth_or_without_answer_is_neither_right_nor_wrong(tmp_path):
    rows = [_prediction(1, label=None), _prediction(2, predicted=None), _prediction(3), _prediction(4, predicted=1)]
    with PredictionsReader(_written(tmp_path / "made", rows)) as reader:
        assert [row.id for row in reader.page(wrong=True)] == [4]
        assert [row.id for row in reader.page(wrong=False)] == [3]
        assert [row.wrong for row in reader.page()] == [None, None, False, True]


def test_numbers_that_are_not_finite_are_unknown(tmp_path):
    rows = [_prediction(1, loss=math.inf, confidence=math.nan, truth_probability=-math.inf)]
    with PredictionsReader(_written(tmp_path / "made", rows)) as reader:
        read = reader.page()[0]
    assert (read.loss, read.confidence, read.truth_probability) == (None, None, None)


def test_thumbnails(tmp_path):
    folder = _written(tmp_path / "made", [_prediction(1)], [(1, Thumbnail(b"\0webp", "image/webp"))])
    with PredictionsReader(folder) as reader:
        assert reader.thumbnail(1) == (b"\0webp", "image/webp")
        assert reader.thumbnail(2) is None


def test_absurd_numbers_find_nothing(reader):
    assert reader.page(label=2**70) == []
    assert reader.page(offset=2**70) == []
    assert reader.count(predicted=-(2**70)) == 0
    assert reader.thumbnail(2**70) is None


def test_what_is_not_there_or_damaged_is_told(tmp_path):
    with pytest.raises(NotFound, match="no predictions"):
        PredictionsReader(tmp_path)
    (tmp_path / "predictions.sqlite").write_bytes(b"no database" * 1000)
    with PredictionsReader(tmp_path) as reader, pytest.raises(NotFound, match="damaged"):
        reader.page()
    with PredictionsReader(tmp_path) as reader, pytest.raises(NotFound, match="damaged"):
        list(reader.iterate())


def test_reading_leaves_no_trace(tmp_path):
    folder = _written(tmp_path / "made", [_prediction(1)])
    folder.chmod(0o555)
    with PredictionsReader(folder) as reader:
        reader.page()
    assert [path.name for path in folder.iterdir()] == ["predictions.sqlite"]


def test_a_full_disk_is_named_and_what_was_written_is_gone(tmp_path):
    path = tmp_path / "predictions.sqlite"
    with PredictionsWriter(path, CLASSES) as writer:
        writer._rows.execute("PRAGMA max_page_count = 40")
        with pytest.raises(DiskFull, match=r"predictions\.sqlite"):
            writer.add([_prediction(id_, name="x" * 1000) for id_ in range(1, 2000)])
    assert not path.exists()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """100,000 rows with their five likeliest classes each, of 100."""
    draw = random.Random(0)  # noqa: S311

    def predictions():
        for id_ in range(1, 100_001):
            top = tuple((label, draw.random()) for label in draw.sample(range(100), 5))
            yield _prediction(
                id_,
                split="val" if id_ % 2 else "test",
                label=id_ % 100,
                predicted=top[0][0],
                confidence=top[0][1],
                truth_probability=draw.random(),
                loss=draw.random() * 9,
                top=top,
            )

    with PredictionsReader(_written(tmp_path_factory.mktemp("large") / "made", predictions())) as reader:
        yield reader


class _Work:
    """How much SQLite did: statements, and its virtual machine's steps in hundreds."""

    def __init__(self, reader: PredictionsReader) -> None:
        self.n_statements = self.n_hundreds = 0
        reader._rows.set_trace_callback(self._statement)
        reader._rows.set_progress_handler(self._hundred, 100)

    def _statement(self, _text: str) -> None:
        self.n_statements += 1

    def _hundred(self) -> int:
        self.n_hundreds += 1
        return 0


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("filters", [{}, {"split": "val"}], ids=str)
def test_a_page_of_many_rows_reads_a_page(sort, filters, large):
    work = _Work(large)
    assert len(large.page(sort=sort, limit=60, **filters)) == 60
    assert work.n_statements == 2
    assert work.n_hundreds < 200


def test_a_count_of_many_rows_is_one_statement_over_an_index(large):
    for filters in ({}, {"split": "val"}, {"wrong": True}, {"label": 3, "predicted": 4, "split": "val"}):
        work = _Work(large)
        assert large.count(**filters) > 0
        assert work.n_statements == 1
        where, values = _where(filters)
        plan = large._rows.execute(f"EXPLAIN QUERY PLAN SELECT count(*) FROM predictions {where}", values)  # noqa: S608
        assert "COVERING INDEX" in plan.fetchone()[3]


@pytest.mark.parametrize(
    ("sort", "filters"),
    [
        ("-loss", {"wrong": True}),
        ("-loss", {"wrong": True, "split": "val"}),
        ("id", {"label": 3, "predicted": 4}),
        ("-loss", {"label": 3, "predicted": 4, "split": "test"}),
        ("-confidence", {"label": 3}),
        ("-confidence", {"predicted": 3}),
        ("-confidence", {"predicted": 3, "split": "val"}),
    ],
    ids=str,
)
def test_a_filter_reads_its_rows_alone(sort, filters, large):
    work = _Work(large)
    large.page(sort=sort, limit=60, **filters)
    assert work.n_statements == 2
    assert work.n_hundreds < 1500  # a scan of all rows takes 10,000 and more


def test_the_top_of_a_class_reads_those(large):
    work = _Work(large)
    assert len(large.top_of_class(7, 50)) == 50
    assert work.n_statements == 2
    assert work.n_hundreds < 200


def test_the_web_process_may_load_it():
    code = (
        "import sys, engine.store.predictions; "
        "print([name for name in ('numpy', 'torch', 'PIL', 'lmdb') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_file_is_opened_for_reading_only(reader):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._rows.execute("DELETE FROM predictions")
