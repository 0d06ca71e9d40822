"""What the options of an import leave out, and that the report names it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.importing import pipeline
from engine.importing.choosing import check_classes
from engine.store.reader import DatasetReader
from engine.store.report import ReportEntry, ReportReader
from tests.kits.trees import class_tree, encoded, imported, job_context, noise, sink_of, write_files
from wire.errors import DatasetInvalid, SpecInvalid
from wire.events import Notice
from wire.manifests import DatasetManifest
from wire.specs import FromFolder, ImportOptions, ImportSpec


def picture(number: int) -> bytes:
    return encoded(noise(5, 4, seed=number))


def names_of(dataset: Path, split: str | None = None) -> set[str]:
    with DatasetReader(dataset) as reader:
        return {sample.name for sample in reader.samples() if split in (None, sample.split)}


def manifest_of(dataset: Path) -> DatasetManifest:
    with DatasetReader(dataset) as reader:
        return reader.manifest


def entries_of(dataset: Path, kind: Any = None) -> list[ReportEntry]:
    with ReportReader(dataset) as report:
        return report.entries(kind)


def warned(dataset: Path) -> dict[str, str]:
    return {one.code: one.text for one in manifest_of(dataset).warnings}


def sums_hold(dataset: Path) -> None:
    manifest = manifest_of(dataset)
    entries = entries_of(dataset)
    assert manifest.n_found == manifest.n_images() + sum(manifest.left_out.values())
    assert Counter(entry.kind for entry in entries if not entry.kept) == Counter(manifest.left_out)
    assert sum(entry.kept for entry in entries) == manifest.n_flagged
    with DatasetReader(dataset) as reader:
        samples = reader.samples()
        assert len(samples) == manifest.n_images()
        assert sum(len(reader.image_bytes(sample.id)) for sample in samples) == manifest.image_bytes
        there = {sample.name for sample in samples}
        assert {entry.name for entry in entries if entry.kept} <= there
        assert not {entry.name for entry in entries if not entry.kept} & there
        assert {entry.same_as for entry in entries} <= {None, *(sample.id for sample in samples)}


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "tree", {"cat": 10, "dog": 20, "newt": 5})


def test_classes_to_keep(pets, tmp_path):
    dataset = imported(pets, tmp_path / "job", classes=("cat", "newt"))
    assert manifest_of(dataset).classes == ("cat", "newt")
    assert manifest_of(dataset).left_out == {"class_not_chosen": 20}
    assert {entry.label for entry in entries_of(dataset)} == {"dog"}
    sums_hold(dataset)


def test_classes_that_are_not_chosen_are_not_even_opened(pets, tmp_path):
    write_files(pets, {"dog/broken.png": b"x"})
    assert manifest_of(imported(pets, tmp_path / "job", classes=("cat", "newt"))).refused == ()


def test_a_class_to_keep_that_is_not_there_names_the_nearest(pets, tmp_path):
    with pytest.raises(SpecInvalid, match=r"'dgo', 'unicorn' are not among the 3 classes") as raised:
        imported(pets, tmp_path / "job", classes=("cat", "dgo", "unicorn"))
    assert raised.value.hint == "Correct the list of classes: for 'dgo' perhaps 'dog'."


def test_where_nothing_is_near_some_classes_are_named():
    with pytest.raises(SpecInvalid) as raised:
        check_classes(["zzz"], ["cat", "dog"])
    assert "there are 'cat', 'dog'" in raised.value.hint


def test_small_classes_leave(pets, tmp_path):
    write_files(pets, {f"ant/{index}.png": b"x" for index in range(20)})
    dataset = imported(pets, tmp_path / "job", min_per_class=10)
    assert manifest_of(dataset).classes == ("cat", "dog")
    assert manifest_of(dataset).left_out == {"class_too_small": 5, "refused": 20}
    assert warned(dataset)["class.empty"].endswith("not in the dataset: 'ant'.")
    sums_hold(dataset)


def test_a_minimum_counts_over_all_splits(tmp_path):
    tree = tmp_path / "tree"
    class_tree(tree / "train", {"cat": 3, "dog": 3, "newt": 2})
    class_tree(tree / "val", {"cat": 2, "dog": 2, "newt": 2}, seed=1)
    assert manifest_of(imported(tree, tmp_path / "job", min_per_class=5)).classes == ("cat", "dog")


def test_too_high_a_minimum_says_what_it_left_out(pets, tmp_path):
    with pytest.raises(
        DatasetInvalid, match=r"only one class left, 'dog',.* 15 of classes that are too small"
    ) as raised:
        imported(pets, tmp_path / "job", min_per_class=11)
    assert "options" in raised.value.hint


def test_large_classes_are_drawn_from_by_the_seed(pets, tmp_path):
    drawn = {seed: names_of(imported(pets, tmp_path / f"{seed}", max_per_class=6, seed=seed)) for seed in (1, 2)}
    assert names_of(imported(pets, tmp_path / "again", max_per_class=6, seed=1)) == drawn[1] != drawn[2]
    dataset = tmp_path / "1" / "artifacts" / "dataset"
    assert [sum(counts) for counts in zip(*manifest_of(dataset).counts.values(), strict=True)] == [6, 6, 5]
    assert manifest_of(dataset).left_out == {"over_maximum": 18}
    sums_hold(dataset)


def test_a_maximum_holds_in_each_given_split(tmp_path):
    tree = tmp_path / "tree"
    class_tree(tree / "train", {"cat": 9, "dog": 3})
    class_tree(tree / "val", {"cat": 5, "dog": 2}, seed=1)
    counts = manifest_of(imported(tree, tmp_path / "job", max_per_class=4)).counts
    assert counts == {"train": (4, 3), "val": (4, 2)}


def test_what_leaves_takes_no_room(pets, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.store.writer._COMPACT_BYTES", 0)
    write_files(pets, {f"dog/large {index}.png": encoded(noise(300, 300, seed=index)) for index in range(8)})
    dataset = imported(pets, tmp_path / "job", max_per_class=5, seed=3)
    images_path = dataset / "images.lmdb"
    assert images_path.is_file()
    assert images_path.stat().st_size < manifest_of(dataset).image_bytes + 200_000
    sums_hold(dataset)


@pytest.fixture
def doubles(tmp_path: Path) -> Path:
    """Picture 0 three times in one class, once in another."""
    files = {f"cat/{index}.png": picture(index) for index in range(10)}
    files |= {f"dog/{index}.png": picture(100 + index) for index in range(10)}
    files |= {"cat/again.png": picture(0), "cat/and again.png": picture(0), "dog/no dog.png": picture(0)}
    return write_files(tmp_path / "tree", files)


def test_doubles_are_kept_unless_they_are_to_be_dropped(doubles, tmp_path):
    assert manifest_of(imported(doubles, tmp_path / "kept")).n_images() == 23
    dataset = imported(doubles, tmp_path / "dropped", duplicates="drop")
    assert manifest_of(dataset).left_out == {"duplicate": 2}
    assert {(entry.name, entry.reason) for entry in entries_of(dataset)} == {
        ("cat/again.png", "the same bytes as cat/0.png, of the same class"),
        ("cat/and again.png", "the same bytes as cat/0.png, of the same class"),
    }
    (twin,) = {entry.same_as for entry in entries_of(dataset)}
    with DatasetReader(dataset) as reader:
        assert reader.sample(twin or 0).name == "cat/0.png"
    sums_hold(dataset)


def test_one_picture_in_two_classes_is_kept_and_told(doubles, tmp_path):
    dataset = imported(doubles, tmp_path / "job", duplicates="drop", val_pct=50, test_pct=25)
    assert "1 picture is in more than one class" in warned(dataset)["class.conflict"]
    assert "cat/0.png and dog/no dog.png" in warned(dataset)["class.conflict"]
    assert {"cat/0.png", "dog/no dog.png"} <= names_of(dataset, "train")


@pytest.mark.parametrize("seed", range(5))
def test_drawn_doubles_go_the_same_way(doubles, tmp_path, seed):
    write_files(doubles, {f"cat/twin {index}.png": picture(index) for index in range(1, 10)})
    dataset = imported(doubles, tmp_path / "job", val_pct=40, test_pct=20, seed=seed)
    splits: dict[str, set[str]] = {}
    with DatasetReader(dataset) as reader:
        for sample in reader.samples():
            splits.setdefault(sample.sha256, set()).add(sample.split)
    assert all(len(of_picture) == 1 for of_picture in splits.values())
    assert manifest_of(dataset).left_out == {}


@pytest.fixture
def leaking(tmp_path: Path) -> Path:
    """Pictures 0 and 1 in training and validation, 2 in training and test, of another class there."""
    files = {
        f"train/{name}/{index}.png": picture(10 * n + index)
        for n, name in enumerate(("cat", "dog"))
        for index in range(9)
    }
    files |= {"val/cat/a.png": picture(0), "val/cat/b.png": picture(1), "val/dog/c.png": picture(50)}
    files |= {"test/dog/d.png": picture(2), "test/cat/e.png": picture(60)}
    return write_files(tmp_path / "tree", files)


def test_leaks_are_removed_from_training(leaking, tmp_path):
    context = job_context(tmp_path / "job")
    spec = ImportSpec(name="leaking", source=FromFolder(path=str(leaking)))
    assert pipeline.run(spec, context) == "succeeded"
    dataset = context.job.dataset_dir
    assert manifest_of(dataset).left_out == {"leak": 3}
    assert {(entry.name, entry.reason) for entry in entries_of(dataset, "leak")} == {
        ("train/cat/0.png", "the same bytes as val/cat/a.png, which is for validation"),
        ("train/cat/1.png", "the same bytes as val/cat/b.png, which is for validation"),
        ("train/cat/2.png", "the same bytes as test/dog/d.png, which is for test"),
    }
    assert manifest_of(dataset).counts == {"train": (6, 9), "val": (2, 1), "test": (1, 1)}
    assert "3 training images are also in validation or test" in warned(dataset)["leak"]
    codes = [event.code for event in sink_of(context).events if isinstance(event, Notice)]
    assert codes == ["import.left_out", "import.class.small", "import.leak"]
    sums_hold(dataset)


def test_leaks_may_be_kept_and_are_flagged(leaking, tmp_path):
    dataset = imported(leaking, tmp_path / "job", leaks="keep")
    assert manifest_of(dataset).left_out == {}
    assert manifest_of(dataset).n_flagged == 3
    assert all(entry.kept and entry.same_as for entry in entries_of(dataset, "leak"))
    assert "They are still in both" in warned(dataset)["leak"]
    sums_hold(dataset)


@pytest.mark.parametrize(("val_pct", "test_pct", "what"), [(20, 0, "validation"), (20, 10, "validation and test")])
def test_one_image_a_class_is_refused_with_a_way_out(tmp_path, val_pct, test_pct, what):
    tree = class_tree(tmp_path / "tree", {"cat": 1, "dog": 1, "newt": 1})
    with pytest.raises(DatasetInvalid, match=f"single image for training, so no images for {what} can") as raised:
        imported(tree, tmp_path / "job", val_pct=val_pct, test_pct=test_pct)
    assert "to 0 %" in raised.value.hint
    assert manifest_of(imported(tree, tmp_path / "all", val_pct=0)).counts == {"train": (1, 1, 1)}


def test_classes_that_training_does_not_know_are_told(tmp_path):
    tree = tmp_path / "tree"
    class_tree(tree / "train", {"cat": 12, "dog": 130})
    class_tree(tree / "val", {"cat": 2, "newt": 2}, seed=1)
    (tree / "train" / "axolotl").mkdir()
    dataset = imported(tree, tmp_path / "job")
    texts = warned(dataset)
    assert texts.keys() == {"class.untrained", "class.empty", "class.imbalance"}
    assert texts["class.untrained"].endswith("'newt'.")
    assert texts["class.empty"].endswith("'axolotl'.")
    assert "130 training images of 'dog', 12 of 'cat'" in texts["class.imbalance"]
    assert manifest_of(dataset).classes == ("cat", "dog", "newt")


def test_a_dataset_to_evaluate_on_needs_no_training_images(tmp_path):
    class_tree(tmp_path / "tree" / "val", {"cat": 2, "dog": 2})
    class_tree(tmp_path / "tree" / "test", {"cat": 2, "dog": 2}, seed=1)
    dataset = imported(tmp_path / "tree", tmp_path / "job")
    assert warned(dataset).keys() == {"train.missing"}
    assert manifest_of(dataset).counts == {"val": (2, 2), "test": (2, 2)}


@pytest.mark.parametrize(
    ("names", "how"),
    [
        (("Cat", "cat"), "upper and lower case"),
        (("cafe\u0301", "caf\u00e9"), "how letters with accents are stored"),
        ((" cat", "cat"), "blanks before or after"),
    ],
)
def test_classes_that_look_the_same_are_kept_apart_and_told(tmp_path, names, how):
    dataset = imported(class_tree(tmp_path / "tree", dict.fromkeys(names, 12)), tmp_path / "job")
    assert set(manifest_of(dataset).classes) == set(names)
    assert how in warned(dataset)["class.alike"]


def _few(draw: st.DrawFn) -> Iterator[tuple[str, bytes]]:
    for index in range(draw(st.integers(0, 14))):
        top = draw(st.sampled_from(["train/", "train/", "val/", "test/"]))
        label = draw(st.sampled_from(["cat/", "dog/", "newt/", ""]))
        yield f"{top}{label}{index}.png", draw(st.sampled_from([*map(picture, range(6)), b"", b"no image"]))


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Small trees in which a picture is likely to be met again."""
    sure = {f"train/{label}/sure.png": picture(seed) for seed, label in enumerate(("cat", "dog"), start=50)}
    clutter = draw(st.sampled_from([{}, {"train/.DS_Store": b"x", "README": b"x"}]))
    return {**sure, **dict(_few(draw)), **clutter}


@settings(deadline=None, max_examples=60)
@given(
    trees(),
    st.fixed_dictionaries(
        {
            "val_pct": st.sampled_from([0, 20, 50]),
            "test_pct": st.sampled_from([0, 30]),
            "min_per_class": st.integers(0, 3),
            "max_per_class": st.sampled_from([0, 3]),
            "duplicates": st.sampled_from(["keep", "drop"]),
            "leaks": st.sampled_from(["keep", "drop_from_train"]),
            "classes": st.sampled_from([(), ("cat", "dog")]),
        }
    ),
)
def test_every_file_is_in_the_dataset_or_in_the_report(files, options):
    with tempfile.TemporaryDirectory() as folder:
        tree = write_files(Path(folder) / "tree", files)
        try:
            dataset = imported(tree, Path(folder) / "job", **options)
        except DatasetInvalid:
            return  # too little was left; that it says so is tested above
        assert manifest_of(dataset).n_found == len(files)
        assert len(names_of(dataset)) + sum(not entry.kept for entry in entries_of(dataset)) == len(files)
        sums_hold(dataset)
        if options["leaks"] == "drop_from_train":
            with DatasetReader(dataset) as reader:
                train = {sample.sha256 for sample in reader.samples("train")}
                held_out = {sample.sha256 for split in ("val", "test") for sample in reader.samples(split)}
            assert not train & held_out


def test_options_reach_the_manifest(pets, tmp_path):
    options = ImportOptions(classes=("cat", "dog"), max_per_class=9, duplicates="drop")
    dataset = imported(pets, tmp_path / "job", **options.model_dump())
    assert ImportOptions.model_validate_json(ImportOptions(**manifest_of(dataset).options).model_dump_json()) == options
