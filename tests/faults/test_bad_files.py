"""Damaged pictures and archives, from the upload over the API to the report, with the real import."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image

from jobs.models import Artifact
from jobs.storage import storage
from tests.faults.history import check_history
from tests.faults.ledger import fault
from tests.flow.bringing import PHOTOS, Desk
from tests.kits import archives
from tests.kits.settling import settle
from tests.kits.trees import encoded, noise

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("redis_server", "plain_static_names")]


@pytest.fixture
def desk(api, tmp_path):
    return Desk(api, tmp_path)


def animated() -> bytes:
    first, second = Image.new("RGB", (6, 5), "red"), Image.new("RGB", (6, 5), "blue")
    return encoded(first, "GIF", save_all=True, append_images=[second])


def huge() -> bytes:
    """A small picture whose header says that it is 30,000 pixels wide and high."""
    data = bytearray(encoded(noise(8, 8), "BMP"))
    struct.pack_into("<ii", data, 18, 30_000, 30_000)
    return bytes(data)


TAKEN = {
    "cat/wrong ending.jpg": encoded(noise(7, 5)),
    "cat/cmyk.jpg": encoded(noise(9, 7).convert("CMYK"), "JPEG"),
    "cat/16 bits.png": encoded(Image.fromarray(np.full((5, 6), 40_000, np.uint16))),
    "cat/animated.gif": animated(),
}
LEFT_OUT = {
    "cat/truncated.jpg": (encoded(noise(90, 90), "JPEG")[:3000], "damaged"),
    "cat/empty.png": (b"", "the file is empty"),
    "cat/text.png": (b"I am no picture", "not an image in a format that is read here"),
    "cat/huge.bmp": (huge(), "it holds too many pixels"),
}


@fault("39", how="real", inject="truncated, empty, mislabelled, CMYK, 16-bit, animated, huge files beside good ones")
def test_damaged_images(desk):
    """Each file is taken, or left out by name with the reason; the import finishes, and its counts add up exactly."""
    dataset = desk.bring({**PHOTOS, **TAKEN, **{name: data for name, (data, _) in LEFT_OUT.items()}})
    told = desk.report(dataset)
    assert told.keys() == LEFT_OUT.keys()
    for name, (_, reason) in LEFT_OUT.items():
        assert told[name].startswith(reason), name
    assert desk.samples(dataset).keys() == PHOTOS.keys() | TAKEN.keys()


def wrong_directory(path):
    """A zip whose end says that the directory is elsewhere."""
    data = bytearray(archives.zip_of(path, PHOTOS).read_bytes())
    end = data.rindex(b"PK\x05\x06")
    struct.pack_into("<L", data, end + 16, 7)
    path.write_bytes(data)
    return path


def tar_without_end(path):
    path.write_bytes(archives.tar_bytes({"cat/1.png": b"x" * 512, "cat/2.png": b"y" * 512})[: 2 * 1024])
    return path


def check_refused(desk, file):
    job = settle(desk.queue(desk.upload("pets.zip")))
    error = desk.told(job)
    assert error["code"] == "archive.invalid", (file, error)
    assert error["message"].startswith("pets.zip "), error
    assert not Artifact.objects.filter(made_by=job).exists()
    assert not storage().job(job.pk).dataset_dir.exists()
    check_history(job)


@fault("40", how="real", inject="zip cut at every tenth, directory elsewhere, tar without its end")
def test_truncated_and_lying_archives(desk):
    """Each ends in a message that names the archive and what is wrong with it; no part of a dataset is left."""
    for tenth in range(1, 10):
        check_refused(desk, archives.cut(archives.zip_of(desk.file, PHOTOS), tenth / 10))
    check_refused(desk, wrong_directory(desk.file))
    check_refused(desk, tar_without_end(desk.file))


@fault("40", title="A member whose checksum is wrong", how="real", inject="one byte changed inside a zip")
def test_a_wrong_checksum(desk):
    """That file is named with the reason; all others are in the dataset."""
    dataset = desk.taken(archives.broken_checksum_zip(desk.file, PHOTOS, broken="cat/3.png"))
    assert desk.report(dataset) == {"cat/3.png": "its checksum does not match: the archive is damaged there"}
    assert desk.samples(dataset).keys() == PHOTOS.keys() - {"cat/3.png"}
