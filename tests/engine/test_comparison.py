"""Two files of answers side by side."""

from __future__ import annotations

import pytest

from engine.store.comparison import KINDS, ComparisonReader
from engine.store.predictions import Prediction, PredictionsWriter
from wire.errors import NotFound

CLASSES = ("cat", "dog", "bird")


def row(id_, sample, label, predicted, share=0.9, *, split="val", error=None):
    return Prediction(id_, split, sample, f"{sample}.png", label, predicted, share, None, None, error)


def written(path, rows, classes=CLASSES):
    with PredictionsWriter(path, classes) as writer:
        writer.add(rows)
        writer.finish()
    return path


@pytest.fixture
def reader(tmp_path):
    """B saw one image less, in another order, and lists the same classes in another order with one more."""
    a = [
        row(1, 10, 0, 0),
        row(2, 11, 0, 0, 0.6),
        row(3, 12, 1, 2),
        row(4, 13, 1, 0, 0.7),
        row(5, 14, 2, 2),
        row(6, 15, 2, None, None, error="is no image"),
        row(7, 16, 1, 1, split="test"),
    ]
    bird, cat, dog, fish = range(4)
    b = [
        row(1, 14, bird, fish, 0.8),
        row(2, 13, dog, cat, 0.5),
        row(3, 12, dog, dog),
        row(4, 10, cat, cat, 0.95),
        row(5, 15, bird, bird),
        row(6, 99, bird, bird),
    ]
    paths = written(tmp_path / "a.sqlite", a), written(tmp_path / "b.sqlite", b, ("bird", "cat", "dog", "fish"))
    with ComparisonReader(*paths) as found:
        yield found


def samples(reader, kind):
    return [pair.sample for pair in reader.page("val", kind)]


def test_every_image_that_both_saw_is_counted_once(reader):
    counts = reader.counts("val")

    assert counts.n_images == 5, "11 and 99 were seen by one alone"
    assert (counts.n_both_right, counts.n_only_a, counts.n_only_b, counts.n_both_wrong) == (1, 1, 2, 1)
    assert (counts.accuracy_a, counts.accuracy_b, counts.agreement) == (0.4, 0.6, 0.4)
    assert [len(samples(reader, kind)) for kind in KINDS] == [counts.of_kind(kind) for kind in KINDS]
    assert counts.n_both_right + counts.n_only_a + counts.n_only_b + counts.n_both_wrong == counts.n_images


def test_classes_are_compared_by_name(reader):
    (lost,) = reader.page("val", "only_a")

    assert (lost.sample, lost.name, lost.truth) == (14, "14.png", "bird")
    assert (lost.a.name, lost.b.name, lost.b.probability) == ("bird", "fish", 0.8)
    assert samples(reader, "both_right") == [10]
    (same,) = reader.page("val", "both_wrong")
    assert (same.sample, same.a.name, same.b.name, same.same) == (13, "cat", "cat", True)


def test_no_answer_is_never_right_and_like_no_other(reader):
    pair = next(pair for pair in reader.page("val", "only_b") if pair.sample == 15)

    assert (pair.a.name, pair.a.error, pair.same) == (None, "is no image", False)
    assert 15 in samples(reader, "differ")


def test_the_surest_differences_come_first_page_by_page(reader):
    assert samples(reader, "differ") == [12, 14, 15]
    assert [pair.sample for pair in reader.page("val", "differ", offset=1, limit=1)] == [14]
    assert [pair.sample for pair in reader.iterate("val", "differ")] == [12, 14, 15]


def test_splits_are_kept_apart(reader):
    assert reader.splits == ("val",)
    assert reader.counts("test").n_images == 0
    assert reader.counts("test").agreement is None
    assert reader.counts("val").n_images == 5, "asked again after another one"


def test_a_file_that_is_gone_or_damaged_is_told(tmp_path):
    good = written(tmp_path / "a.sqlite", [row(1, 1, 0, 0)])
    (tmp_path / "b.sqlite").write_bytes(b"no database at all" * 100)

    with pytest.raises(NotFound, match="no predictions"):
        ComparisonReader(good, tmp_path / "none.sqlite")
    with pytest.raises(NotFound, match="damaged"):
        ComparisonReader(good, tmp_path / "b.sqlite")
