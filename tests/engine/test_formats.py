from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.catalog import sample_cards
from engine.formats import Found, FoundImage, Stray, natural_key
from engine.formats.folder.reader import FolderFormat
from engine.formats.foreign import recognised
from engine.formats.lists.reader import ListsFormat
from engine.sources.folder import FolderTree
from tests.kits.format_kit import FIXTURES, FormatKit
from tests.kits.trees import class_tree, encoded, noise, write_files, write_images


class TestFolderFormat(FormatKit):
    name = "folder"


class TestListsFormat(FormatKit):
    name = "lists"


def _found(root: Path) -> list[Found]:
    return list(FolderFormat.read(FolderTree(root)))


def _images(root: Path) -> set[tuple[str, str | None, str]]:
    return {(f.name, f.split, f.label) for f in _found(root) if isinstance(f, FoundImage)}


def test_class_folders_give_no_split(tmp_path):
    class_tree(tmp_path, {"cat": 1, "dog": 1})
    assert _images(tmp_path) == {("cat/0.png", None, "cat"), ("dog/0.png", None, "dog")}


@pytest.mark.parametrize("val_name", ["val", "valid", "validation", "Val"])
def test_split_folders_are_known_by_name(tmp_path, val_name):
    for split in ("train", val_name, "test"):
        class_tree(tmp_path / split, {"cat": 1, "dog": 1})
    splits = {(name.split("/")[0], split) for name, split, _ in _images(tmp_path)}
    assert splits == {("train", "train"), (val_name, "val"), ("test", "test")}
    assert FolderFormat.detect(FolderTree(tmp_path)) > 0.8


def test_validation_and_test_alone_are_splits(tmp_path):
    for split in ("val", "test"):
        class_tree(tmp_path / split, {"cat": 1, "dog": 1})
    assert {(split, label) for _, split, label in _images(tmp_path)} == {
        ("val", "cat"), ("val", "dog"), ("test", "cat"), ("test", "dog"),
    }  # fmt: skip


def test_deeper_folders_belong_to_the_class_above(tmp_path):
    write_images(tmp_path / "cat" / "2024" / "May", 1)
    write_images(tmp_path / "dog", 1)
    assert ("cat/2024/May/0.png", None, "cat") in _images(tmp_path)


@pytest.mark.parametrize("beside", [None, "__MACOSX/x", "LICENSE", "README.md"])
def test_folders_around_it_all_are_looked_through(tmp_path, beside):
    class_tree(tmp_path / "data" / "export-2024" / "train", {"cat": 1, "dog": 1})
    if beside:
        write_files(tmp_path, {beside: b"x"})
    assert _images(tmp_path) == {
        ("data/export-2024/train/cat/0.png", "train", "cat"),
        ("data/export-2024/train/dog/0.png", "train", "dog"),
    }


def test_a_picture_of_it_all_beside_the_splits_is_no_class(tmp_path):
    class_tree(tmp_path / "data" / "train", {"cat": 1, "dog": 1})
    write_images(tmp_path / "data", 1)
    assert {label for _, _, label in _images(tmp_path)} == {"cat", "dog"}


@pytest.mark.parametrize("nested", [False, True])
def test_train_may_be_a_class_among_vehicles(tmp_path, nested):
    class_tree(tmp_path, {"bus": 1, "car": 1})
    write_images(tmp_path / "train" / "steam" if nested else tmp_path / "train", 1)
    assert {label for _, _, label in _images(tmp_path)} == {"bus", "car", "train"}


STRANGE = [
    "_", "<script>alert(1)<", "con", "猫", "قطة", "🐈", "it's \"quoted\"", "$(id)", "a,b",
    "=1+1", "  leading", "trailing ", "-rf", "Cat", "cat", "cafe\u0301", "caf\u00e9", "%2e", "..a", "new\nline",
]  # fmt: skip


@pytest.mark.parametrize("splits", [False, True])
def test_names_of_classes_are_kept_letter_by_letter(tmp_path, splits):
    image = encoded(noise(4, 4))
    top = "train/" if splits else ""
    write_files(tmp_path, {f"{top}{name}/0.png": image for name in STRANGE})
    assert {label for _, _, label in _images(tmp_path)} == set(STRANGE)
    assert set(FolderFormat.class_names(FolderTree(tmp_path))) == set(STRANGE)


def test_folders_without_a_file_are_classes_by_name(tmp_path):
    class_tree(tmp_path / "train", {"cat": 1, "dog": 1})
    (tmp_path / "train" / "axolotl").mkdir()
    (tmp_path / "val" / "newt").mkdir(parents=True)
    assert FolderFormat.class_names(FolderTree(tmp_path)) == ["axolotl", "cat", "dog", "newt"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("README.md", "it does not lie in a class folder"),
        ("0.png", "it does not lie in a class folder"),
        ("cat/notes.txt", "it has no image's file ending"),
        ("cat/no ending", "it has no image's file ending"),
        ("cat/logo.svg", "SVG is a drawing, not pixels; save it as JPEG or PNG"),
        ("cat/IMG_1.HEIC", "HEIC is not read here; save it as JPEG or PNG"),
    ],
)
def test_what_is_no_image_of_a_class_is_told(tmp_path, name, reason):
    write_files(class_tree(tmp_path, {"cat": 1, "dog": 1}), {name: b"x"})
    assert [found for found in _found(tmp_path) if isinstance(found, Stray)] == [Stray(name, reason)]


def test_what_lies_beside_the_splits_is_told(tmp_path):
    class_tree(tmp_path / "train", {"cat": 1, "dog": 1})
    class_tree(tmp_path / "val", {"cat": 1, "dog": 1})
    write_files(tmp_path, {"extra/cat/0.png": b"x", "train/0.png": b"x"})
    strays = {found.name for found in _found(tmp_path) if isinstance(found, Stray)}
    assert strays == {"extra/cat/0.png", "train/0.png"}


def test_one_class_is_a_poor_layout_but_one(tmp_path):
    class_tree(tmp_path, {"cat": 3})
    assert 0 < FolderFormat.detect(FolderTree(tmp_path)) < 0.5


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["images/train/a.png", "masks/train/a.png"], "segmentation set: 1 files in 'images' have a mask"),
        (["d/Images/a.jpg", "d/Images/b.jpg", "d/Labels/a.png", "d/Labels/b.png"], "segmentation set: 2 files"),
        (["x/JPEGImages/a.jpg", "x/Annotations/a.xml"], "Pascal VOC: 1 XML files"),
        (["train/images/a.jpg", "train/labels/a.txt", "data.yaml"], "YOLO: 1 text files"),
        (["train/a.jpg", "train/_annotations.coco.json"], "COCO: train/_annotations.coco.json"),
        (["images/a.jpg", "annotations/instances_val.json"], "COCO"),
        (["cat/a.jpg", "dog/a.jpg"], None),
        (["images/a.jpg", "masks/b.jpg"], None),
        (["cat/a.jpg", "cat/a.txt", "dog/b.jpg", "dog/b.txt"], None),
        (["cat/a.jpg", "cat/b.jpg", "cat/c.jpg", "dog/a.jpg", "about.xml"], None),
        (["cat/a.jpg", "dog/b.jpg", "meta.json"], None),
        (["masks/a.txt"], None),
        ([], None),
    ],
)
def test_layouts_of_other_tasks_are_known_by_name(tmp_path, names, what):
    write_files(tmp_path, dict.fromkeys(names, b"x"))
    foreign = recognised(FolderTree(tmp_path))
    assert (foreign is None) == (what is None)
    if foreign and what:
        assert what in foreign.what
        assert "folder for each class" in foreign.hint


def test_lists_give_split_and_class(tmp_path):
    FIXTURES["lists"](tmp_path)
    write_images(tmp_path / "unlisted", 1)
    listed = tmp_path / "train.txt"
    listed.write_text(listed.read_text() + "\nphotos/none.png cat")
    found = list(ListsFormat.read(FolderTree(tmp_path)))
    images = [one for one in found if isinstance(one, FoundImage)]
    assert [(one.split, one.label) for one in images] == [("train", "cat"), ("train", "dog")] * 4 + [
        ("val", "cat"), ("val", "dog"),
    ]  # fmt: skip
    strays = {one.name: one.reason for one in found if isinstance(one, Stray)}
    assert strays == {
        "train.txt line 9": "there is no file photos/none.png beside the list",
        "unlisted/0.png": "no list names it",
    }


def test_people_count_classes_naturally():
    assert sorted(["10", "9", "b 2", "B 10", "a"], key=natural_key) == ["9", "10", "a", "b 2", "B 10"]


@given(st.lists(st.text(), max_size=20, unique=True))
def test_any_names_have_one_natural_order(names):
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)


@pytest.fixture
def _sklearn_settings():
    """scikit-learn sets these where they are not set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMP_DUPLICATE_LIB_OK", "True")
        patch.setenv("KMP_INIT_AT_FORK", "FALSE")
        yield


@pytest.mark.usefixtures("_sklearn_settings")
def test_digits_are_the_scans_of_scikit_learn(tmp_path):
    from sklearn.datasets import load_digits

    card = sample_cards()["digits"]
    card.load()(tmp_path)

    images = _images(tmp_path)
    assert len(images) == card.n_images
    assert {label for _, _, label in images} == {str(digit) for digit in range(card.n_classes)}
    scans = load_digits()
    for index in (0, 700, 1796):
        with Image.open(tmp_path / str(scans.target[index]) / f"{index:04}.png") as image:
            assert image.mode == "L"
            levels_HW = np.asarray(image, np.float64) * 16 / 255
        np.testing.assert_array_equal(np.rint(levels_HW), scans.images[index])
