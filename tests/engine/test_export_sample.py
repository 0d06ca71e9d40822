"""Which images are drawn: in proportion, the same again, never of another split."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.export.sample import allotted, draw, spread, verified_split
from engine.predict.matching import numbers_of
from engine.store.reader import DatasetReader
from tests.kits.trees import class_tree, imported

CLASSES = {"ant": 40, "bee": 20, "cat": 4}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for seed, split in enumerate(("train", "val")):
        class_tree(root / "tree" / split, CLASSES, seed=seed)
    with DatasetReader(imported(root / "tree", root / "job")) as reader:
        yield reader


@pytest.fixture
def numbers(reader):
    return numbers_of(reader.manifest.classes, reader.manifest)


@pytest.mark.parametrize(
    ("counts", "n", "shares"),
    [
        ([10, 10], 4, [2, 2]),
        ([10, 10, 10], 4, [2, 1, 1]),
        ([53, 24, 23], 10, [5, 3, 2]),
        ([1, 99], 50, [1, 49]),
        ([0, 5], 3, [0, 3]),
        ([3, 3], 6, [3, 3]),
        ([0, 0], 0, [0, 0]),
    ],
)
def test_whole_shares_first_then_the_largest_remainders(counts, n, shares):
    assert allotted(counts, n) == shares


def test_no_class_gives_more_than_it_has():
    counts = [1, 7, 2, 100, 3]
    for n in range(sum(counts) + 1):
        shares = allotted(counts, n)
        assert sum(shares) == n
        assert all(share <= count for share, count in zip(shares, counts, strict=True))


def test_a_sample_has_each_class_by_its_share(reader, numbers):
    drawn = draw(reader, "val", numbers, n_images=16, seed=3)
    assert Counter(drawn.labels) == {0: 10, 1: 5, 2: 1}
    assert (drawn.split, drawn.n_of, drawn.seed) == ("val", 64, 3)
    assert {sample.split for sample in drawn.samples} == {"val"}
    ids = [sample.id for sample in drawn.samples]
    assert ids == sorted(set(ids))
    assert drawn.labels == tuple(sample.label for sample in drawn.samples)


def test_the_seed_decides(reader, numbers):
    first = draw(reader, "val", numbers, n_images=16, seed=3)
    assert draw(reader, "val", numbers, n_images=16, seed=3) == first
    assert draw(reader, "val", numbers, n_images=16, seed=4).samples != first.samples


@pytest.mark.parametrize("n_images", [0, 64, 1000])
def test_all_of_them_need_no_seed(reader, numbers, n_images):
    drawn = draw(reader, "val", numbers, n_images=n_images, seed=3)
    assert (len(drawn.samples), drawn.n_of, drawn.seed) == (64, 64, None)


def test_classes_that_the_checkpoint_does_not_know_are_left_out(reader):
    numbers = numbers_of(("zebra", "cat", "ant"), reader.manifest)
    drawn = draw(reader, "train", numbers, n_images=0, seed=0)
    assert Counter(drawn.labels) == {2: 40, 1: 4}
    assert (drawn.n_of, drawn.seed) == (44, None)


def test_validation_comes_before_test_and_training_never(reader, numbers):
    manifest, counts = reader.manifest, reader.manifest.counts["val"]

    def split_of(**counts_of):
        return verified_split(manifest.model_copy(update={"counts": counts_of}), numbers)

    assert split_of(train=counts, val=counts, test=counts) == "val"
    assert split_of(train=counts, val=(0, 0, 0), test=counts) == "test"
    assert split_of(train=counts) is None
    assert verified_split(manifest.model_copy(update={"counts": {"val": (5, 0, 0), "test": counts}}), {1: 0}) == "test"


def test_a_few_are_of_as_many_classes_as_can_be(reader, numbers):
    drawn = draw(reader, "val", numbers, n_images=0, seed=0)
    few = spread(drawn, 8, seed=1)
    assert Counter(label for _, label in few) == {0: 3, 1: 3, 2: 2}
    assert few == spread(drawn, 8, seed=1) != spread(drawn, 8, seed=2)
    assert len(spread(drawn, 1000, seed=1)) == 64
