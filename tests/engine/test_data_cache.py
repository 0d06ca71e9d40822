from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.data.cache import Decoded, DecodingStopped, decoded
from engine.data.decode import decode
from engine.data.resize import resize
from engine.store.reader import DatasetReader
from tests.kits.trees import class_tree, imported
from wire.errors import DatasetInvalid, DiskFull, SpecInvalid
from wire.manifests import SplitName

GOING_ON = SimpleNamespace(asked=False)


@dataclass
class Cache:
    reader: DatasetReader
    folder: Path

    def get(self, *, image_px: int = 16, split: SplitName = "train", **changes: Any) -> Decoded:
        arguments: dict[str, Any] = {
            "image_px": image_px,
            "resize": "crop",
            "colour": "rgb",
            "cache_dir": self.folder,
            "on_progress": lambda done, total: None,
            "stop": GOING_ON,
        }
        return decoded(self.reader, split, **{**arguments, **changes})

    def entries(self) -> set[str]:
        return {path.name for path in (self.folder / "decoded").iterdir() if path.is_dir()}

    def builds(self, **changes: Any) -> bool:
        made: list[int] = []
        self.get(**changes, on_progress=lambda done, total: made.append(done))
        return bool(made)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    tree = class_tree(tmp_path / "tree", {"cat": 6, "dog": 9}, size=(20, 14))
    with DatasetReader(imported(tree, tmp_path / "job")) as reader:
        yield Cache(reader, tmp_path / "cache")


def test_pixels_are_those_of_decoding_each_image(cache):
    told: list[tuple[int, int]] = []
    made = cache.get(on_progress=lambda done, total: told.append((done, total)))
    samples = cache.reader.samples("train")
    assert told == [(done, 12) for done in range(1, 13)]
    assert made.ids_N.tolist() == [sample.id for sample in samples]
    assert made.labels_N.tolist() == [sample.label for sample in samples]
    assert made.labels_N.dtype == np.int64
    assert isinstance(made.images_NHWC, np.memmap)
    for image_HWC, sample in zip(made.images_NHWC, samples, strict=True):
        expected = resize(decode(cache.reader.image_bytes(sample.id)), 16, "crop", "rgb")
        np.testing.assert_array_equal(image_HWC, expected)


def test_the_second_time_nothing_is_made(cache):
    first = cache.get()
    assert not cache.builds()
    np.testing.assert_array_equal(cache.get().images_NHWC, first.images_NHWC)


@pytest.mark.parametrize(
    "changes", [{"image_px": 17}, {"resize": "fill"}, {"colour": "grey"}, {"split": "val"}], ids=str
)
def test_every_choice_has_its_own_entry(cache, changes):
    cache.get()
    assert cache.builds(**changes)
    assert len(cache.entries()) == 2


def test_a_split_without_images_is_empty(cache):
    made = cache.get(split="test", colour="grey")
    assert made.images_NHWC.shape == (0, 16, 16, 1)
    assert len(made.labels_N) == len(made.ids_N) == 0


@pytest.mark.parametrize("damage", ["cut", "gone", "other shape"])
def test_a_damaged_entry_is_made_again(cache, damage):
    expected = np.array(cache.get().images_NHWC)
    (entry,) = cache.entries()
    images_path = cache.folder / "decoded" / entry / "images.npy"
    if damage == "cut":
        os.truncate(images_path, 500)
    elif damage == "gone":
        images_path.unlink()
    else:
        np.save(images_path, np.zeros((1, 2, 3, 4), np.uint8))
    assert cache.builds()
    np.testing.assert_array_equal(cache.get().images_NHWC, expected)


def test_a_stop_leaves_nothing(cache):
    stop = SimpleNamespace(asked=False)

    def on_progress(done: int, total: int) -> None:
        stop.asked = done == 3

    with pytest.raises(DecodingStopped):
        cache.get(stop=stop, on_progress=on_progress)
    assert cache.entries() == set()
    stop.asked = False
    assert cache.builds(stop=stop)


def test_a_stop_ends_the_wait_for_another_builder(cache):
    cache.get()
    (entry,) = cache.entries()
    with (cache.folder / "decoded" / f"{entry}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DecodingStopped):
            cache.get(stop=SimpleNamespace(asked=True))


def test_an_image_that_cannot_be_decoded_is_named(cache, monkeypatch):
    monkeypatch.setattr(DatasetReader, "image_bytes", lambda *_: b"damaged since the import")
    with pytest.raises(DatasetInvalid, match=r"cat/\d\.png"):
        cache.get()
    assert cache.entries() == set()


def test_the_entry_unused_for_longest_goes_first(cache, monkeypatch):
    entry_bytes = 12 * 100 * 100 * 3
    monkeypatch.setenv("CACHE_MAX_GIB", str(2.5 * entry_bytes / 2**30))
    names: list[str] = []
    for age, px in enumerate((100, 101)):
        cache.get(image_px=px)
        names += sorted(cache.entries() - set(names))
        os.utime(cache.folder / "decoded" / names[-1], (1000 + age, 1000 + age))
    cache.get(image_px=100)  # used again: now the other one is the older
    cache.get(image_px=99)
    assert names[0] in cache.entries()
    assert names[1] not in cache.entries()
    assert len(cache.entries()) == 2


def test_an_entry_being_opened_is_not_evicted(cache, monkeypatch):
    cache.get(image_px=100)
    (entry,) = cache.entries()
    monkeypatch.setenv("CACHE_MAX_GIB", "0")
    with (cache.folder / "decoded" / f"{entry}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache.get(image_px=50)
        assert entry in cache.entries()
    cache.get(image_px=49)
    assert entry not in cache.entries()


def test_what_is_mapped_survives_its_eviction(cache, monkeypatch):
    made = cache.get()
    expected = np.array(made.images_NHWC)
    monkeypatch.setenv("CACHE_MAX_GIB", "0")
    cache.get(image_px=50)
    assert len(cache.entries()) == 1
    np.testing.assert_array_equal(made.images_NHWC, expected)


def test_remains_of_a_killed_builder_are_removed(cache, monkeypatch):
    cache.get()
    (entry,) = cache.entries()
    part = cache.folder / "decoded" / f"{entry}.part"
    (cache.folder / "decoded" / entry).rename(part)
    assert cache.builds()
    assert not part.exists()

    shutil.copytree(cache.folder / "decoded" / entry, cache.folder / "decoded" / "0123.part")
    monkeypatch.setenv("CACHE_MAX_GIB", "0")
    cache.get(image_px=50)
    assert not (cache.folder / "decoded" / "0123.part").exists()


def test_a_full_disk_names_what_is_missing(cache, monkeypatch):
    """The pixels go to the device that is always full, so the error is the kernel's own."""
    open_path = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r": open_path(Path("/dev/full") if path.suffix == ".npy" else path, mode)
    )
    with pytest.raises(DiskFull, match=r"9,216 bytes are needed, 9,216 bytes are missing") as raised:
        cache.get()
    assert "CACHE_DIR" in raised.value.hint
    assert cache.entries() == set()


def test_a_budget_that_is_no_number_is_told(cache, monkeypatch):
    monkeypatch.setenv("CACHE_MAX_GIB", "plenty")
    cache.get()
    with pytest.raises(SpecInvalid, match="plenty"):
        cache.get(image_px=20)


def test_two_processes_that_want_the_same_make_it_once(cache):
    code = """
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from engine.data.cache import decoded
from engine.store.reader import DatasetReader

made = []
sys.stdin.readline()
with DatasetReader(Path(sys.argv[1])) as reader:
    found = decoded(
        reader, "train", image_px=300, resize="squash", colour="rgb", cache_dir=Path(sys.argv[2]),
        on_progress=lambda done, total: made.append(done), stop=SimpleNamespace(asked=False),
    )
print(len(made), int(found.images_NHWC.astype("int64").sum()))
"""
    command = [sys.executable, "-c", code, str(cache.reader.path), str(cache.folder)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(int(n_made) for n_made, _ in answers) == [0, 12]
    assert answers[0][1] == answers[1][1]
    assert len(cache.entries()) == 1
