from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engine.sources import folder
from engine.sources.folder import FolderTree
from engine.sources.tree import MemberUnreadable, Stray, in_natural_order, natural_key
from tests.kits.sources import source_opened
from wire.errors import DatasetInvalid, DatasetMissing, SpecInvalid
from wire.specs import FromFolder, FromSample


def _write(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def test_names_in_natural_order_files_before_folders(tmp_path):
    _write(tmp_path, "b/2.png", "b/10.png", "b/a/1.png", "A/x.png", "notes.txt", "c 10/1.png", "c 2/1.png", "b/B.png")
    with FolderTree(tmp_path) as tree:
        names = list(tree.names())
        assert names == [
            "notes.txt", "A/x.png", "b/2.png", "b/10.png", "b/B.png", "b/a/1.png", "c 2/1.png", "c 10/1.png",
        ]  # fmt: skip
        assert in_natural_order(reversed(names)) == names
        assert all(tree.read(name) == name.encode() for name in names)
        assert tree.listed() is None


def test_numbers_of_any_length_are_sorted():
    names = ["1" * 5000 + ".png", "2.png", "1" * 4999 + "2.png"]
    assert min(names, key=natural_key) == "2.png"


def test_what_is_no_ordinary_file_is_never_opened(tmp_path):
    root = _write(tmp_path / "root", "cat/1.png", "cat/.DS_Store", "cat/more.zip")
    _write(tmp_path / "elsewhere", "secret.png")
    (root / "cat" / "link.png").symlink_to(tmp_path / "elsewhere" / "secret.png")
    (root / "dog").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "cat" / "pipe.png")
    (root / os.fsdecode(b"cat/\xff.png")).write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(root / "cat" / "s.png"))
        with FolderTree(root) as tree:
            assert list(tree.names()) == ["cat/1.png"]
            assert set(tree.strays()) == {
                Stray("cat/.DS_Store", "it was left behind by an operating system", clutter=True),
                Stray("cat/more.zip", "it is an archive itself; unpack it first"),
                Stray("cat/link.png", "it is a link"),
                Stray("dog", "it is a link"),
                Stray("loop", "it is a link"),
                Stray("cat/pipe.png", "it is no ordinary file"),
                Stray("cat/s.png", "it is no ordinary file"),
                Stray("cat/?.png", "its name is not valid UTF-8"),
            }


def test_empty_folders(tmp_path):
    _write(tmp_path, "cat/1.png", "dog/.DS_Store", "deep/a/b/1.png")
    for name in ("empty", "deep/a/c", "deep/d", "outer/inner"):
        (tmp_path / name).mkdir(parents=True)
    with FolderTree(tmp_path) as tree:
        assert list(tree.empty_folders()) == ["deep/a/c", "deep/d", "dog", "empty", "outer/inner"]


def test_files_that_change_after_they_were_found(tmp_path):
    root = _write(tmp_path / "root", "cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png")
    _write(tmp_path / "elsewhere", "1.png")
    with FolderTree(root) as tree:
        (root / "cat" / "1.png").unlink()
        (root / "cat" / "2.png").unlink()
        (root / "cat" / "2.png").symlink_to(tmp_path / "elsewhere" / "1.png")
        (root / "cat" / "3.png").unlink()
        os.mkfifo(root / "cat" / "3.png")
        (root / "dog").rename(tmp_path / "dog")
        (root / "dog").symlink_to(tmp_path / "elsewhere")
        for name, why in {
            "cat/1.png": "there is no such file",
            "cat/2.png": "it is a link",
            "cat/3.png": "it is no ordinary file",
            "dog/1.png": "it lies outside the folders that images may be read from",
            "cat/a\0.png": "its name holds a NUL character",
        }.items():
            with pytest.raises(MemberUnreadable, match=why):
                tree.read(name)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (_write(tmp_path, "cat/1.png") / "cat" / "1.png").open("wb") as file:
        file.truncate(600 * 2**20)
    with FolderTree(tmp_path) as tree, pytest.raises(MemberUnreadable, match="larger than 512 MiB"):
        tree.read("cat/1.png")


def test_a_large_file_that_is_no_picture_is_not_read_whole(tmp_path):
    with (_write(tmp_path, "cat/1.png") / "cat" / "1.png").open("wb") as file:
        file.truncate(100 * 2**20)
    with FolderTree(tmp_path) as tree, pytest.raises(MemberUnreadable, match="not an image in a format"):
        tree.read("cat/1.png")


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    _write(tmp_path, "cat/1.png", "dog/1.png")
    scandir = os.scandir

    def denied(path: str) -> object:
        if str(path).endswith("dog/"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(folder.os, "scandir", denied)
    with FolderTree(tmp_path) as tree:
        assert list(tree.names()) == ["cat/1.png"]
        assert list(tree.strays()) == [Stray("dog", "the folder cannot be read: Permission denied")]


def test_trees_deeper_than_the_stack(tmp_path):
    deepest = str(tmp_path)
    for _ in range(1200):
        deepest += "/d"
        Path(deepest).mkdir()
    Path(deepest, "1.png").write_bytes(b"x")
    with FolderTree(tmp_path) as tree:
        (name,) = tree.names()
        assert tree.read(name) == b"x"
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)


def test_folders_for_each_split(tmp_path):
    train = _write(tmp_path / "train images", "cat/1.png", "val/cat/2.png")
    test = _write(tmp_path / "t", "cat/3.png", "cat/.DS_Store")
    (test / "dog").mkdir()
    source = FromFolder(path=str(train), val_path=str(train / "val"), test_path=str(test))
    with source_opened(source, tmp_path / "job") as tree:
        assert list(tree.names()) == ["train/cat/1.png", "val/cat/2.png", "test/cat/3.png"]
        assert tree.read("val/cat/2.png") == b"val/cat/2.png"
        assert [stray.name for stray in tree.strays() if stray.clutter] == ["test/cat/.DS_Store"]
        assert list(tree.empty_folders()) == ["test/dog"]
        for name in ("cat/1.png", "test/../train/cat/1.png"):
            with pytest.raises(MemberUnreadable):
                tree.read(name)
    with source_opened(FromFolder(path=str(train)), tmp_path / "job") as tree:
        assert list(tree.names()) == ["cat/1.png", "val/cat/2.png"]


def test_folders_that_are_the_same_or_not_there(tmp_path):
    root = _write(tmp_path / "root", "cat/1.png")
    same = FromFolder(path=str(root), val_path=f"{root}/.")
    with pytest.raises(DatasetInvalid, match="must differ"), source_opened(same, tmp_path / "job"):
        pass
    missing = FromFolder(path=str(root), test_path=str(tmp_path / "no"))
    with pytest.raises(DatasetMissing, match="There is no folder"), source_opened(missing, tmp_path / "job"):
        pass


@pytest.mark.slow
def test_a_sample_is_written_into_the_scratch_folder_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "True")  # as scikit-learn sets them where they are not
    monkeypatch.setenv("KMP_INIT_AT_FORK", "FALSE")
    with source_opened(FromSample(name="digits"), tmp_path / "job") as tree:
        assert len(tree.names()) == 1797
        assert tree.licence.startswith("CC BY 4.0")
        assert [path.name for path in tmp_path.iterdir()] == ["job"]
        assert [path.name for path in (tmp_path / "job").iterdir()] == ["scratch"]
    with pytest.raises(SpecInvalid), source_opened(FromSample(name="nothing"), tmp_path / "job"):
        pass


def test_sources_load_no_torch():
    code = "import sys, engine.sources.opening, engine.sources.lists; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"False\n"
