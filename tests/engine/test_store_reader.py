from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.store.reader import MOST_SIZE_BINS, DatasetReader, Neighbours, SizeBin
from tests.kits.stored import Row, statements_counted, store, store_rows
from wire.errors import NotFound

NAMES = [
    "train/cat/Whiskers_01.png",
    "train/cat/100%.png",
    "train/dog/100x.png",
    "val/cat/back\\slash.png",
    "val/dog/$(id) '; DROP TABLE samples; --.png",
    "val/dog/قطة 猫🐈.png",
]
SPLITS = ["train", "train", "train", "val", "val", "val"]
LABELS = [0, 0, 1, 0, 1, 1]


@pytest.fixture
def dataset(tmp_path):
    rows = [
        Row(name, split, label, f"image {name}".encode())
        for name, split, label in zip(NAMES, SPLITS, LABELS, strict=True)
    ]
    store(tmp_path / "dataset", ["cat", "dog"], rows)
    with DatasetReader(tmp_path / "dataset") as reader:
        yield reader


def found(reader, q, **more):
    ids = [sample.id for sample in reader.samples(q=q, **more)]
    assert reader.count(more.get("split"), label=more.get("label"), q=q) == len(ids)
    return ids


@pytest.mark.parametrize(
    ("q", "ids"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("whiskers", [1]),
        ("WHISKERS", [1]),
        ("100", [2, 3]),
        ("100%", [2]),
        ("Whiskers_0", [1]),
        ("t_c", []),
        ("\\", [4]),
        ("'; DROP", [5]),
        ("猫", [6]),
        ("%", [2]),
        ("nothing", []),
    ],
)
def test_a_text_is_found_as_it_stands(dataset, q, ids):
    assert found(dataset, q) == ids


def test_filters_hold_together(dataset):
    assert found(dataset, "png", split="val") == [4, 5, 6]
    assert found(dataset, "png", label=1) == [3, 5, 6]
    assert found(dataset, "100", split="train", label=0) == [2]
    assert dataset.count("val", label=0) == 1
    assert dataset.count("test") == 0
    assert dataset.count(label=7) == 0


def test_one_sample_and_some_by_their_ids(dataset):
    assert dataset.sample(4).name == NAMES[3]
    assert [sample.id for sample in dataset.samples_named([5, 2, 99])] == [2, 5]
    for missing in (0, 7, 2**70):
        with pytest.raises(NotFound, match=str(missing) if missing < 2**63 else "no image"):
            dataset.sample(missing)
        with pytest.raises(NotFound):
            dataset.image_bytes(missing)


def test_neighbours_are_those_of_the_filter(dataset):
    assert dataset.neighbours(1) == Neighbours(None, 2, 0)
    assert dataset.neighbours(6) == Neighbours(5, None, 5)
    assert dataset.neighbours(4, label=0) == Neighbours(2, None, 2)
    assert dataset.neighbours(3, "train", q="100") == Neighbours(2, None, 1)
    assert dataset.neighbours(4, q="nothing") == Neighbours(None, None, 0), "it is not among them itself"


@given(st.sampled_from(["", "1", "0"]), st.sampled_from([None, 0, 3]), st.sampled_from([None, "train", "val"]))
def test_following_the_neighbours_visits_every_sample_once(tmp_path_factory, q, label, split):
    path = tmp_path_factory.mktemp("walk") / "dataset"
    store_rows(path, 60, n_classes=4)
    with DatasetReader(path) as reader:
        ids = [sample.id for sample in reader.samples(split, label=label, q=q)]
        here = ids[0] if ids else None
        visited = []
        while here is not None:
            around = reader.neighbours(here, split, label=label, q=q)
            assert around.n_before == len(visited)
            assert around.previous == (visited[-1] if visited else None)
            visited.append(here)
            here = around.next
        assert visited == ids


def test_few_sizes_are_told_exactly(tmp_path):
    rows = [Row(f"{n}", "train", 0, b"%d" % n, width, 20) for n, width in enumerate([30, 31, 30, 64])]
    store(tmp_path / "dataset", ["a", "b"], rows)
    with DatasetReader(tmp_path / "dataset") as reader:
        assert reader.sizes() == (1, [SizeBin(30, 20, 2), SizeBin(31, 20, 1), SizeBin(64, 20, 1)])


def test_many_sizes_are_counted_together(tmp_path):
    rows = [Row(f"{n}", "train", 0, b"%d" % n, 1 + 7 * n, 4000 - 7 * n) for n in range(500)]
    store(tmp_path / "dataset", ["a", "b"], rows)
    with DatasetReader(tmp_path / "dataset") as reader:
        bin_px, bins = reader.sizes()
    assert bin_px == 63
    assert len({each.width_px for each in bins}) <= MOST_SIZE_BINS
    assert sum(each.n_images for each in bins) == 500
    assert all(each.width_px % bin_px == 0 and each.height_px % bin_px == 0 for each in bins)


def test_a_hundred_thousand_rows_take_as_many_queries_as_a_thousand(tmp_path):
    def looked_through(n_images):
        path = tmp_path / str(n_images)
        store_rows(path, n_images)
        with statements_counted() as seen, DatasetReader(path) as reader:
            for q in ("", "9"):
                reader.count("val", label=3, q=q)
                assert len(reader.samples("val", q=q, offset=n_images // 100, limit=60)) > 0
                reader.neighbours(n_images // 2, "val", q=q)
            assert [each.id for each in reader.samples(offset=n_images - 1, limit=60)] == [n_images]
            reader.sizes()
        return len(seen)

    assert looked_through(100_000) == looked_through(1000) == 7
