"""Single files, good and bad, as an import meets them; and the processes that open them."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.formats import FoundImage
from engine.importing import crew, frames
from engine.importing.checks import Answer, Looks, look_at
from engine.importing.crew import ImportStopped, look_through, n_workers_for
from engine.sources.tree import MemberUnreadable
from engine.store.disk import disk_full_named
from engine.store.reader import DatasetReader
from tests.kits.trees import class_tree, encoded, imported, noise, write_files
from wire.errors import DiskFull, OutOfMemory
from wire.manifests import DatasetManifest


def looks_of(data: bytes) -> Answer:
    (answer,) = look_at([data])
    return answer


def header_of(width: int, height: int) -> bytes:
    """A PNG that claims a size and has next to no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def animated() -> bytes:
    first, second = Image.new("RGB", (6, 5), "red"), Image.new("RGB", (6, 5), "blue")
    return encoded(first, "GIF", save_all=True, append_images=[second])


def turned() -> bytes:
    image = noise(8, 4)
    exif = image.getexif()
    exif[0x0112] = 6
    return encoded(image, "JPEG", exif=exif)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param(encoded(noise(1, 1)), (1, 1), id="a single pixel"),
        pytest.param(encoded(noise(4000, 1)), (4000, 1), id="a line"),
        pytest.param(turned(), (4, 8), id="upright by EXIF"),
        pytest.param(encoded(noise(9, 7).convert("CMYK"), "JPEG"), (9, 7), id="CMYK"),
        pytest.param(encoded(Image.fromarray(np.full((5, 6), 40_000, np.uint16))), (6, 5), id="16 bits"),
        pytest.param(encoded(noise(6, 5).convert("P"), transparency=0), (6, 5), id="palette with transparency"),
        pytest.param(encoded(noise(6, 5, mode="L")), (6, 5), id="grey"),
        pytest.param(animated(), (6, 5), id="animated"),
        pytest.param(encoded(noise(600, 500), "JPEG"), (600, 500), id="larger than what is summed up together"),
    ],
)
def test_images_that_are_taken(data, size):
    looks = looks_of(data)
    assert isinstance(looks, Looks)
    assert (looks.width, looks.height) == size
    assert all(0 <= value <= 1 for value in looks.moments)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "the file is empty", id="zero bytes"),
        pytest.param(b"I am no picture", "not an image in a format that is read here", id="text"),
        pytest.param(os.urandom(3000), "not an image in a format that is read here", id="random bytes"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image in a format", id="SVG"),
        pytest.param(encoded(noise(90, 90), "JPEG")[:3000], "damaged", id="truncated JPEG"),
        pytest.param(encoded(noise(90, 90))[:3000], "damaged", id="truncated PNG"),
        pytest.param(header_of(30_000, 30_000), "it holds too many pixels", id="30,000 x 30,000"),
        pytest.param(header_of(100, 100), "damaged", id="fewer pixels than it says"),
    ],
)
def test_files_that_are_refused(data, reason):
    answer = looks_of(data)
    assert isinstance(answer, str)
    assert answer.startswith(reason)


def test_content_decides_and_not_the_ending(tmp_path):
    tree = class_tree(tmp_path / "tree", {"cat": 12, "dog": 12})
    write_files(tree, {"cat/png.jpg": encoded(noise(7, 7)), "cat/text.jpg": b"hello"})
    with DatasetReader(imported(tree, tmp_path / "job")) as reader:
        assert [refused.name for refused in reader.manifest.refused] == ["cat/text.jpg"]
        assert reader.manifest.n_images() == 25


@pytest.mark.parametrize("size", [(5, 4), (64, 64), (65, 64), (300, 200), (700, 600)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_moments_are_those_of_the_pixels(size, mode):
    image = noise(*size, mode=mode)
    looks = looks_of(encoded(image))
    assert isinstance(looks, Looks)
    pixels_PC = np.asarray(image.convert("RGB"), np.float64).reshape(-1, 3) / 255
    expected = [*pixels_PC.mean(axis=0), *(pixels_PC**2).mean(axis=0)]
    # Of large images some pixels are looked at; the mean of noise then has an error of its own.
    tolerance = 1e-9 if size[0] * size[1] <= 64 * 64 else 0.03
    np.testing.assert_allclose(looks.moments, expected, atol=tolerance)
    assert looks.is_grey == (mode == "L")


def test_what_is_summed_up_together_comes_out_in_order():
    images = [encoded(noise(8, 8, seed=n, mode="RGB" if n % 3 else "L")) for n in range(70)] + [b"", b"text"]
    together = look_at(images)
    assert together == [looks_of(data) for data in images]


answers = st.one_of(
    st.text(max_size=50),
    st.builds(
        Looks,
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.booleans(),
        st.binary(min_size=32, max_size=32).map(bytes.hex),
        st.tuples(*[st.floats(0, 1)] * 6),
    ),
)


@given(st.lists(answers, max_size=20), st.lists(st.binary(max_size=50), max_size=10))
def test_frames_come_out_as_they_went_in(told, files):
    pipe = io.BytesIO()
    frames.write_files(pipe, files)
    frames.write_answers(pipe, told)
    frames.write_large(pipe, 7)
    pipe.seek(0)
    assert frames.read_files(pipe) == files
    incoming = frames.read_answers(pipe)
    assert next(incoming) == told
    assert next(incoming) == 7
    with pytest.raises(frames.PipeClosed):
        next(incoming)


class Wish:
    asked = False


def found(names: Iterator[str] | list[str]) -> list[FoundImage]:
    return [FoundImage(name, None, "cat") for name in names]


def read_from(files: dict[str, bytes]) -> Any:
    def read(name: str) -> bytes:
        if name not in files:
            raise MemberUnreadable("there is no such file")
        return files[name]

    return read


@pytest.mark.slow
def test_workers_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.importing.crew._BATCH_FILES", 7)
    files = {f"{n}.png": encoded(noise(8, 8, seed=n)) for n in range(40)} | {"large.png": encoded(noise(900, 700))}
    wanted = found([*files, "missing.png"])

    def looked(n_workers: int) -> list[crew.Looked]:
        batches = look_through(wanted, read_from(files), n_workers=n_workers, scratch_dir=tmp_path, stop=Wish())
        return [one for batch in batches for one in batch]

    alone = looked(0)
    assert [one.found for one in alone] == wanted
    assert alone[-1].answer == "there is no such file"
    assert looked(1) == looked(3) == alone


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_with_the_picture(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.importing.crew._LAST_WORDS_S", 0.1)
    files = {"small.png": encoded(noise(8, 8)), "huge.png": encoded(Image.new("RGB", (4100, 4000)), compress_level=1)}
    # What the kernel does to a process that takes too much: at the moment when the picture is about to be decoded.
    script = """
import os, sys
from engine.importing import frames, worker
told = frames.write_large
frames.write_large = lambda *about: (told(*about), os.kill(os.getpid(), 9))
worker.main(sys.argv[1])
"""
    monkeypatch.setattr("engine.importing.crew.WORKER_COMMAND", (sys.executable, "-c", script))
    batches = look_through(found([*files] * 3), read_from(files), n_workers=1, scratch_dir=tmp_path, stop=Wish())
    with pytest.raises(OutOfMemory, match=r"ended with signal 9 while it read huge\.png"):
        list(batches)


@pytest.mark.slow
def test_a_stop_ends_workers_in_the_middle_of_a_batch(tmp_path):
    stop = Wish()
    data = encoded(Image.new("RGB", (5000, 5000)))
    names = [f"{n}.png" for n in range(200)]
    batches = look_through(
        found(names), read_from(dict.fromkeys(names, data)), n_workers=2, scratch_dir=tmp_path, stop=stop
    )
    threading.Timer(1.0, lambda: setattr(stop, "asked", True)).start()
    with pytest.raises(ImportStopped):
        list(batches)
    assert _children() == []


@pytest.mark.slow
def test_workers_end_when_nobody_listens_any_more(tmp_path):
    """As after a kill -9 of the import."""
    process = subprocess.Popen(
        [*crew.WORKER_COMMAND, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    frames.write_files(process.stdin, [b""])
    assert next(frames.read_answers(process.stdout)) == ["the file is empty"]
    process.send_signal(signal.SIGTERM)
    frames.write_files(process.stdin, [b""])
    assert next(frames.read_answers(process.stdout)) == ["the file is empty"]
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()


def _children() -> list[str]:
    me = str(os.getpid())
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == me and b"engine.importing.worker" in (stat.parent / "cmdline").read_bytes():
            children.append(stat.parent.name)
    return children


def test_few_files_need_no_workers():
    assert n_workers_for(300) == 0
    assert 1 <= n_workers_for(100_000) <= 8


def _manifest(dataset: Path) -> DatasetManifest:
    with DatasetReader(dataset) as reader:
        return reader.manifest


def test_the_mean_image_is_that_of_the_training_images(tmp_path):
    tree = tmp_path / "tree"
    colours = {"train/cat/0.png": "red", "train/dog/0.png": "blue", "val/cat/0.png": "white", "val/dog/1.png": "white"}
    write_files(tree, {name: encoded(Image.new("RGB", (300, 150), colour)) for name, colour in colours.items()})
    with Image.open(imported(tree, tmp_path / "job") / "mean.png") as mean:
        assert mean.size == (128, 64)
        assert mean.getextrema() == ((128, 128), (0, 0), (128, 128))


def test_a_mean_image_of_some_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.importing.completing.MAX_IMAGES", 5)
    tree = class_tree(tmp_path / "tree", {"cat": 10, "dog": 10})
    notes = _manifest(imported(tree, tmp_path / "job")).notes
    assert "The mean image is of 4 training images, evenly taken." in notes


def test_a_full_disk_says_how_much_is_missing_and_leaves_nothing(tmp_path, monkeypatch):
    tree = class_tree(tmp_path / "tree", {"cat": 20, "dog": 20})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("engine.store.writer.DatasetWriter._commit", full)
        with pytest.raises(DiskFull, match=r"40 of 40 files were read, about 16 MiB are missing") as raised:
            imported(tree, tmp_path / "job")
    assert "What was uploaded is kept" in raised.value.hint
    assert not (tmp_path / "job" / "scratch").exists()
    assert not (tmp_path / "job" / "artifacts").exists()
    assert _manifest(imported(tree, tmp_path / "job")).n_images() == 40


@pytest.mark.slow
def test_a_killed_import_leaves_no_workers_and_can_be_done_again(tmp_path):
    tree = class_tree(tmp_path / "tree", {"cat": 300, "dog": 300}, size=(50, 50))
    job = tmp_path / "job"
    job.mkdir()
    spec = {"verb": "import", "name": "x", "source": {"kind": "folder", "path": str(tree)}}
    (job / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "engine", "import", "--dir", str(job)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events_path = job / "events.jsonl"
    while not (events_path.exists() and '"reading"' in events_path.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    workers = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(job).encode() in _read(path)]
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while any(b"importing.worker" in _read(path) for path in workers):
        assert time.monotonic() < until
        time.sleep(0.05)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _manifest(job / "artifacts" / "dataset").n_images() == 600


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(("free_bytes", "is_full"), [(1_000_000, True), (10**12, False)])
def test_an_image_file_that_a_full_disk_cut_short_is_told_from_a_failing_disk(
    tmp_path, monkeypatch, free_bytes, is_full
):
    """LMDB calls a write of which the disk took a part an I/O error."""
    monkeypatch.setattr("engine.store.disk.shutil.disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    with pytest.raises(DiskFull if is_full else lmdb.Error), disk_full_named(tmp_path):
        raise lmdb.Error("mdb_txn_commit: Input/output error")
