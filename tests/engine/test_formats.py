from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.catalog import sample_cards
from engine.formats import FoundImage, Stray, natural_key
from engine.formats.folder.reader import FolderFormat
from tests.kits.format_kit import FormatKit
from tests.kits.trees import class_tree, write_images


class TestFolderFormat(FormatKit):
    name = "folder"


def _images(root: Path) -> set[tuple[str, str | None, str]]:
    return {(f.name, f.split, f.label) for f in FolderFormat.read(root) if isinstance(f, FoundImage)}


def test_class_folders_give_no_split(tmp_path):
    class_tree(tmp_path, {"cat": 1, "dog": 1})
    assert _images(tmp_path) == {("cat/0.png", None, "cat"), ("dog/0.png", None, "dog")}


@pytest.mark.parametrize("val_name", ["val", "valid", "validation", "Val"])
def test_split_folders_are_known_by_name(tmp_path, val_name):
    for split in ("train", val_name, "test"):
        class_tree(tmp_path / split, {"cat": 1, "dog": 1})
    splits = {(name.split("/")[0], split) for name, split, _ in _images(tmp_path)}
    assert splits == {("train", "train"), (val_name, "val"), ("test", "test")}
    assert FolderFormat.detect(tmp_path) > 0.8


def test_deeper_folders_belong_to_the_class_above(tmp_path):
    write_images(tmp_path / "cat" / "2024" / "May", 1)
    write_images(tmp_path / "dog", 1)
    assert ("cat/2024/May/0.png", None, "cat") in _images(tmp_path)


def test_a_single_folder_around_it_all_is_looked_through(tmp_path):
    class_tree(tmp_path / "export-2024" / "train", {"cat": 1, "dog": 1})
    (tmp_path / "__MACOSX").mkdir()
    assert _images(tmp_path) == {
        ("export-2024/train/cat/0.png", "train", "cat"),
        ("export-2024/train/dog/0.png", "train", "dog"),
    }


@pytest.mark.parametrize("nested", [False, True])
def test_train_may_be_a_class_among_vehicles(tmp_path, nested):
    class_tree(tmp_path, {"bus": 1, "car": 1})
    write_images(tmp_path / "train" / "steam" if nested else tmp_path / "train", 1)
    assert {label for _, _, label in _images(tmp_path)} == {"bus", "car", "train"}


def test_what_operating_systems_leave_is_clutter_and_the_rest_is_told(tmp_path):
    class_tree(tmp_path, {"cat": 1, "dog": 1})
    for name in (".DS_Store", "cat/Thumbs.db", "__MACOSX/cat/0.png", "cat/._0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "cat" / "notes.txt").write_text("hello")
    (tmp_path / "cat" / "link.png").symlink_to(tmp_path / "dog" / "0.png")

    strays = {found.name: found for found in FolderFormat.read(tmp_path) if isinstance(found, Stray)}
    clutter = {name for name, stray in strays.items() if stray.clutter}
    assert clutter == {".DS_Store", "cat/Thumbs.db", "__MACOSX/cat/0.png", "cat/._0.png"}
    assert {name: strays[name].reason for name in strays.keys() - clutter} == {
        "README.md": "it does not lie in a class folder",
        "cat/notes.txt": "it has no image's file ending",
        "cat/link.png": "it is a link",
    }


def test_a_linked_folder_is_not_entered(tmp_path):
    class_tree(tmp_path / "tree", {"cat": 1, "dog": 1})
    (tmp_path / "tree" / "loop").symlink_to(tmp_path / "tree", target_is_directory=True)
    assert len(_images(tmp_path / "tree")) == 2


def test_a_name_that_is_no_utf8_is_told_in_letters_that_print(tmp_path):
    class_tree(tmp_path, {"cat": 1, "dog": 1})
    (tmp_path / "cat" / "0.png").rename(os.fsdecode(os.fsencode(tmp_path / "cat") + b"/caf\xe9.png"))
    strays = [found for found in FolderFormat.read(tmp_path) if isinstance(found, Stray)]
    assert strays == [Stray("cat/caf?.png", "its name is not valid UTF-8")]


def test_one_class_is_a_poor_layout_but_one(tmp_path):
    class_tree(tmp_path, {"cat": 3})
    assert 0 < FolderFormat.detect(tmp_path) < 0.5


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
