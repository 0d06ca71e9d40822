from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.sources import list_lines, list_tree
from engine.sources.lists import lists_in
from engine.sources.tree import Listed, MemberUnreadable, SourceStopped, Stray
from tests.kits import archives
from tests.kits.sources import opened, source_opened
from wire.errors import DatasetInvalid, DatasetMissing, UploadMissing
from wire.specs import FromLists


@pytest.fixture
def images(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    for name in ("cat/1.png", "cat/a b.png", "dog/2.png", "dog/鸟.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def _lists(root: Path, **texts: str | bytes) -> dict[str, str]:
    """Each text as a file; their paths by name."""
    paths = {}
    for name, text in texts.items():
        path = root.parent / f"{name}-{len(list(root.parent.iterdir()))}.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths[name] = str(path)
    return paths


def _source(
    images: Path, *, folder: str | None = None, roots: tuple[str, ...] | None = None, **texts: Any
) -> FromLists:
    return FromLists(
        **_lists(images, **texts),
        folder=str(images) if folder is None else folder,
        roots=(str(images),) if roots is None else roots,
    )


def _read(source: FromLists, tmp_path: Path, **options: Any) -> tuple[list[Listed], dict[str, str], dict[str, bytes]]:
    with source_opened(source, tmp_path / "job", **options) as tree:
        listed = list(tree.listed() or ())
        assert [one.name for one in listed] == list(tree.names())
        assert len(set(tree.names())) == len(listed)
        return (
            listed,
            {stray.name: stray.reason for stray in tree.strays()},
            {one.name: tree.read(one.name) for one in listed},
        )


def test_labels_count_the_lines_of_the_labels_file(images, tmp_path):
    source = _source(images, train="cat/1.png 0\n\ncat/a b.png\t0\r\n  dog/2.png   1 \n", labels="cats\nbig dogs\n\n")
    listed, strays, data = _read(source, tmp_path)
    assert listed == [
        Listed("cat/1.png", None, "cats"), Listed("cat/a b.png", None, "cats"), Listed("dog/2.png", None, "big dogs"),
    ]  # fmt: skip
    assert not strays
    assert data == {name: name.encode() for name in ("cat/1.png", "cat/a b.png", "dog/2.png")}


def test_without_a_labels_file_a_label_is_the_name(images, tmp_path):
    listed, strays, _ = _read(_source(images, train="\ufeffcat/1.png 7\ndog/鸟.png 狗"), tmp_path)
    assert [(one.name, one.label) for one in listed] == [("cat/1.png", "7"), ("dog/鸟.png", "狗")]
    assert not strays


def test_several_lists_are_the_splits(images, tmp_path):
    source = _source(
        images, train="cat/1.png 0", val=f"{images}/cat/1.png 0\ndog/2.png 1", test="dog/2.png 1", labels="a\nb"
    )
    listed, strays, data = _read(source, tmp_path)
    assert [(one.name, one.split) for one in listed] == [
        ("train/cat/1.png", "train"), ("val/cat/1.png", "val"), ("val/dog/2.png", "val"), ("test/dog/2.png", "test"),
    ]  # fmt: skip
    assert not strays
    assert data["val/cat/1.png"] == b"cat/1.png"


@pytest.mark.parametrize("folder", ["", None])
def test_absolute_paths(folder, images, tmp_path):
    source = _source(images, folder=folder, train=f"{images}/cat/1.png x\n{images}/dog/../dog/2.png y")
    listed, strays, data = _read(source, tmp_path)
    assert [one.label for one in listed] == ["x", "y"]
    assert list(data.values()) == [b"cat/1.png", b"dog/2.png"]
    assert not any(".." in one.name or one.name.startswith("/") for one in listed)
    assert not strays


def test_absolute_and_relative_paths_in_one_list(images, tmp_path):
    other = images.parent / "other"
    other.mkdir()
    (other / "3.png").write_bytes(b"three")
    lines = f"cat/1.png x\n{other}/3.png y\ndog/2.png x\n../other/3.png y"
    source = _source(images, roots=(str(images), str(other)), train=lines)
    _, strays, data = _read(source, tmp_path)
    assert list(data.values()) == [b"cat/1.png", b"three", b"dog/2.png"]
    assert strays == {"train.txt line 4": "it names the same file as line 2"}


def test_lines_that_cannot_be_used_are_named(images, tmp_path):
    lines = [
        "cat/1.png 0", "cat/2.png", "cat/3.png -1", "cat/4.png 2", "cat/5.png cat", "http://x.org/6.png 0",
        "cat/7\0.png 0", "dog/2.png 1", "./cat/1.png 1", "/ 1", "cat/8.png 99999999999",
    ]  # fmt: skip
    listed, strays, _ = _read(_source(images, train="\n".join(lines), labels="cat\ndog"), tmp_path)
    assert [one.name for one in listed] == ["cat/1.png", "dog/2.png"]
    assert strays == {
        "train.txt line 2": "it has no label",
        "train.txt line 3": "its label -1 is not in labels.txt, which has 0 to 1",
        "train.txt line 4": "its label 2 is not in labels.txt, which has 0 to 1",
        "train.txt line 5": "its label 'cat' is no number that counts the lines of labels.txt",
        "train.txt line 6": "it is a web address; download the images first",
        "train.txt line 7": "its path holds a NUL character",
        "train.txt line 9": "it names the same file as line 1",
        "train.txt line 10": "its path names no file",
        "train.txt line 11": "its label '99999999999' is no number that counts the lines of labels.txt",
    }


def test_a_label_with_a_nul_character_is_none(images, tmp_path):
    _, strays, _ = _read(_source(images, train="cat/1.png x\ndog/2.png y\0"), tmp_path)
    assert strays == {"train.txt line 2": "its label holds a NUL character"}


def test_relative_paths_need_a_folder(images, tmp_path):
    listed, strays, _ = _read(_source(images, folder="", train="cat/1.png x"), tmp_path)
    assert not listed
    assert strays == {"train.txt line 1": "its path is relative; name the folder that paths start from"}


def test_no_path_leads_out_of_the_roots(images, tmp_path):
    secret = images.parent / "secret"
    secret.mkdir()
    (secret / "1.png").write_bytes(b"secret")
    (images.parent / "images2").mkdir()
    (images.parent / "images2" / "1.png").write_bytes(b"secret")
    (images / "link.png").symlink_to(secret / "1.png")
    (images / "folder").symlink_to(secret)
    (images / "good.png").symlink_to(images / "cat" / "1.png")
    os.mkfifo(images / "pipe.png")
    outside = [f"{secret}/1.png", "../secret/2.png", "link.png", "folder/1.png", "../images2/1.png", "/etc/passwd"]
    source = _source(
        images, train="".join(f"{path} x\n" for path in (*outside, "good.png", "pipe.png", "no.png", "cat"))
    )
    with source_opened(source, tmp_path / "job") as tree:
        names = list(tree.names())
        assert len(names) == 10
        for name in names[:6]:
            with pytest.raises(MemberUnreadable, match="it lies outside the folders that images may be read from"):
                tree.read(name)
        assert tree.read(names[6]) == b"cat/1.png"
        for name, why in zip(names[7:], ["no ordinary file", "there is no such file", "no ordinary file"], strict=True):
            with pytest.raises(MemberUnreadable, match=why):
                tree.read(name)


def test_without_roots_nothing_may_be_read(images, tmp_path):
    with pytest.raises(DatasetInvalid, match="no folder of it is open for imports"):
        _read(_source(images, roots=(), train="cat/1.png x"), tmp_path)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"train": b"cat/1.png x\ncat/\xff.png y"}, r"train\.txt line 2 is not UTF-8"),
        ({"train": "cat/1.png x".encode("utf-16")}, r"train\.txt is text in UTF-16"),
        ({"train": "a" * 20_000}, r"train\.txt line 1 has more than 16,384 bytes"),
        ({"train": "a.png 0", "labels": "cat\ndog\ncat"}, r"names the class 'cat' twice: line 1 and line 3"),
        ({"train": "a.png 0", "labels": "cat\n\ndog"}, r"labels\.txt line 2 is empty"),
        ({"train": "a.png 0", "labels": "cat\nd\0g"}, r"labels\.txt line 2 holds a NUL character"),
        ({"train": "a.png 0", "labels": "\n"}, r"labels\.txt is empty"),
    ],
)
def test_lists_that_cannot_be_read_at_all(texts, says, images, tmp_path):
    with pytest.raises(DatasetInvalid, match=says):
        _read(_source(images, **texts), tmp_path)


def test_too_many_lines(images, tmp_path, monkeypatch):
    monkeypatch.setattr(list_lines, "MAX_LINES", 3)
    with pytest.raises(DatasetInvalid, match=r"train\.txt has more than 3 lines"):
        _read(_source(images, train="\n" * 5), tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(list_tree, "_MAX_REFUSED", 2)
    with pytest.raises(
        DatasetInvalid, match=r"More than 2 lines cannot be used; the first is train\.txt line 1: it has no"
    ):
        _read(_source(images, train="x\n" * 5), tmp_path)


def test_lists_that_are_gone_or_change(images, tmp_path):
    with pytest.raises(DatasetMissing, match=r"There is no list /no/train\.txt"):
        _read(FromLists(train="/no/train.txt", roots=(str(images),)), tmp_path)
    with pytest.raises(UploadMissing, match=r"The uploaded list val\.txt is not there any more"):
        _read(FromLists(**_lists(images, train=""), val="../../uploads/ab", roots=(str(images),)), tmp_path)
    with pytest.raises(DatasetMissing, match="There is no folder /no"):
        _read(_source(images, folder="/no", train=""), tmp_path)
    source = _source(images, train="cat/1.png x")
    with source_opened(source, tmp_path / "job") as tree:
        Path(source.train).write_text("cat/1.png x\ncat/1.png x")
        with pytest.raises(DatasetInvalid, match=r"train\.txt was changed while it was read"):
            tree.names()


def test_a_stop_while_lists_are_read(images, tmp_path):
    with pytest.raises(SourceStopped):
        _read(_source(images, train="cat/1.png x\n" * 20_000), tmp_path, stopped=True)


def test_a_classification_needs_no_labels(images, tmp_path):
    lines = "cat/1.png 0\ncat/a b.png\ndog/2.png 9\ncat/c.png 1 "
    with source_opened(_source(images, train=lines, labels="x\ny"), tmp_path / "job", labels_needed=False) as tree:
        assert [(one.name, one.label) for one in tree.listed() or ()] == [
            ("cat/1.png", "x"), ("cat/a b.png", ""), ("dog/2.png", ""), ("cat/c.png", "y"),
        ]  # fmt: skip
        assert not tree.strays()
    lines = "cat/1.png big cat\ncat/1.png cat\ncat/a b.png\n"
    with source_opened(_source(images, train=lines), tmp_path / "job", labels_needed=False) as tree:
        assert [(one.name, one.label) for one in tree.listed() or ()] == [
            ("cat/1.png big", "cat"), ("cat/1.png", "cat"), ("cat/a b.png", ""),
        ]  # fmt: skip


def _inside(tmp_path: Path, **members: str | bytes) -> list[Listed | Stray] | None:
    files = {
        name.replace("_txt", ".txt"): data if isinstance(data, bytes) else data.encode()
        for name, data in members.items()
    }
    files |= dict.fromkeys(("images/1.png", "images/2.png", "images/3.png"), b"x")
    found = []
    for top in ("", "pets/"):
        path = archives.zip_of(tmp_path / "upload", {top + name: data for name, data in files.items()})
        with opened(path) as tree:
            found.append(lists_in(tree))
    plain, wrapped = found
    if plain is not None:
        assert wrapped is not None
        assert [one.name.removeprefix("pets/") for one in wrapped] == [one.name for one in plain]
    return plain


def test_lists_that_lie_in_an_archive(tmp_path):
    assert _inside(
        tmp_path,
        train_txt="images/1.png 0\nimages\\2.png 1\nimages/1.png 1\nimages/9.png 0\nimages/3.png 5",
        test_txt="./images/3.png 1",
        labels_txt="cat\ndog",
    ) == [
        Listed("images/1.png", "train", "cat"),
        Listed("images/2.png", "train", "dog"),
        Stray("train.txt line 3", "it names a file that another line names"),
        Stray("train.txt line 4", "there is no file images/9.png beside the list"),
        Stray("train.txt line 5", "its label 5 is not in labels.txt, which has 0 to 1"),
        Listed("images/3.png", "test", "dog"),
    ]
    assert _inside(tmp_path, train_txt="images/1.png cat\nimages/2.png dog") == [
        Listed("images/1.png", None, "cat"), Listed("images/2.png", None, "dog"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "hello world", "images/1.png\nimages/2.png", "images/1.png images/2.png", b"\xff\xfe\x00", "/a/1.png 0"],
)
def test_other_files_of_that_name_are_no_lists(text, tmp_path):
    assert _inside(tmp_path, train_txt=text) is None
    assert _inside(tmp_path) is None
