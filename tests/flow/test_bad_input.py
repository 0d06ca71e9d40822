"""What people bring by mistake or by malice, from the upload over the API to the report: said clearly, nothing lost.

One test for each thing of the list, so that it can be ticked off. The reasons in detail, memory inside the engine and
random damage are in tests/engine/test_sources_hostile.py, test_importing_files.py and test_importing_options.py. Things
of the list that have their place elsewhere:

- an upload that is cut: tests/dashboard/test_uploads.py, tests/browser/test_upload.py, tests/js/upload_tus.test.js
- two tabs on one upload: tests/dashboard/test_uploads.py
- the server killed at half, the disk really full during an upload: tests/dashboard/test_uploads_killed.py
- an import that is killed: tests/engine/test_importing_files.py, tests/jobs/test_reconcile.py
- an "image" to classify that is not one: tests/dashboard/test_api_predict.py, tests/engine/test_serve_service.py,
  tests/engine/test_classify.py; many at once: tests/digits/test_models.py (T-55)
- names and classes that would be scripts, in a browser: tests/browser/test_dataset.py
- a set for another task: tests/engine/test_formats.py
"""

from __future__ import annotations

import stat
import struct
import tarfile
import zlib
from collections.abc import Iterator

import pytest
from PIL import Image

from jobs.states import Status
from jobs.storage import storage
from tests.dashboard.downloads import download
from tests.flow.bringing import CAT, PHOTOS, Desk, check_surroundings
from tests.kits import archives
from tests.kits.settling import settle, settle_measured
from tests.kits.trees import encoded, noise

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.usefixtures("redis_server", "plain_static_names"),
]

MOST_BYTES = 10**9
KINDS = pytest.mark.parametrize("kind", archives.KINDS)


@pytest.fixture
def desk(api, tmp_path) -> Iterator[Desk]:
    before = set(storage().root.rglob("*"))
    yield Desk(api, tmp_path)
    check_surroundings(api, before)


# Archives.


@KINDS
def test_a_truncated_archive(kind, desk):
    error = desk.refused(archives.cut(archives.archive_of(desk.file, kind, PHOTOS), 0.6), f"pets.{kind}")
    assert error["code"] == "archive.invalid"
    assert error["message"] == f"pets.{kind} is cut short: its end is missing."
    assert "Upload it again" in error["hint"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../../../../../../../evil.png", "its name leads out of the archive (..)"),
        ("cat/../../../../../evil.png", "its name leads out of the archive (..)"),
        ("/tmp/evil.png", "its name is an absolute path"),  # noqa: S108 - refused
        ("cat\\evil.png", "its name holds a backslash; pack it again with / between folders"),
        ("..\\..\\evil.png", "its name holds a backslash; pack it again with / between folders"),
        ("C:/evil.png", "its name begins with a drive letter"),
        ("c:evil.png", "its name begins with a drive letter"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_member_that_leads_elsewhere(kind, name, reason, desk):
    dataset = desk.taken(archives.archive_of(desk.file, kind, {name: CAT, **PHOTOS}))
    assert desk.report(dataset) == {name: reason}
    assert desk.samples(dataset).keys() == PHOTOS.keys()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        pytest.param(tarfile.SYMTYPE, "it is a link", id="symlink"),
        pytest.param(tarfile.LNKTYPE, "it is a hard link", id="hard link"),
        pytest.param(tarfile.CHRTYPE, "it is no ordinary file", id="character device"),
        pytest.param(tarfile.BLKTYPE, "it is no ordinary file", id="block device"),
        pytest.param(tarfile.FIFOTYPE, "it is no ordinary file", id="FIFO"),
    ],
)
def test_a_member_that_is_no_file(kind, reason, desk):
    photos = [(tarfile.TarInfo(name), data) for name, data in PHOTOS.items()]
    for info, data in photos:
        info.size = len(data)
    special = archives.special("cat/special.png", kind, "../../../../../../../etc/passwd")
    desk.file.write_bytes(archives.tar_of_infos([special, *photos]))
    assert desk.report(desk.taken(desk.file)) == {"cat/special.png": reason}


def test_a_symlink_in_a_zip(desk):
    photos = [(name, data, stat.S_IFREG | 0o644) for name, data in PHOTOS.items()]
    link = ("cat/special.png", b"/etc/passwd", stat.S_IFLNK | 0o777)
    assert desk.report(desk.taken(archives.zip_with_mode(desk.file, [link, *photos]))) == {
        "cat/special.png": "it is a link"
    }


def test_10_gb_in_10_mb(desk):
    archives.zip_bomb(desk.file)
    assert desk.file.stat().st_size < 11 * 10**6
    job, peak_bytes = settle_measured(desk.queue(desk.upload("bomb.zip")))
    error = desk.told(job)
    assert (error["code"], error["message"].startswith("bomb.zip ")) == ("archive.invalid", True)
    assert peak_bytes < MOST_BYTES


def test_200000_tiny_members(desk):
    archives.tiny_zip(desk.file, 200_000)
    job, peak_bytes = settle_measured(desk.queue(desk.upload()))
    error = desk.told(job)
    assert error["code"] == "dataset.invalid"
    assert "Of 200,000 files in 'pets', there is no image that can be read." in error["message"]
    assert "; and 199,995 more." in error["message"]
    assert peak_bytes < MOST_BYTES


def test_an_encrypted_archive(desk):
    error = desk.refused(archives.encrypted_zip(desk.file, PHOTOS))
    assert error["message"].startswith("pets.zip is encrypted")
    assert "without a password" in error["hint"]


def test_a_nested_archive(desk):
    inner = archives.zip_of(desk.file, PHOTOS).read_bytes()
    error = desk.refused(archives.zip_of(desk.file, {"pets/photos.zip": inner}))
    assert "photos.zip: it is an archive itself; unpack it first" in error["message"] + error["hint"]


def test_a_nested_archive_beside_images(desk):
    inner = archives.zip_of(desk.file, PHOTOS).read_bytes()
    left_out = desk.report(desk.bring({**PHOTOS, "cat/more.zip": inner}))
    assert left_out == {"cat/more.zip": "it is an archive itself; unpack it first"}


def test_a_member_with_a_broken_checksum(desk):
    dataset = desk.taken(archives.broken_checksum_zip(desk.file, PHOTOS, broken="cat/3.png"))
    assert desk.report(dataset) == {"cat/3.png": "its checksum does not match: the archive is damaged there"}


@KINDS
def test_duplicate_names(kind, desk):
    dataset = desk.taken(archives.archive_of(desk.file, kind, [*PHOTOS.items(), ("cat/3.png", CAT)]))
    assert desk.report(dataset) == {"cat/3.png": "another file has the same name"}


@pytest.mark.parametrize("declared_bytes", [10, 10_000])
def test_a_zip_that_lies_about_sizes(declared_bytes, desk):
    error = desk.refused(archives.lying_zip(desk.file, PHOTOS, declared_bytes=declared_bytes))
    assert f"cat/0.png: it lies about its size: {declared_bytes:,} bytes" in error["message"]


def test_a_zip_that_says_it_is_a_bomb(desk):
    error = desk.refused(archives.lying_zip(desk.file, PHOTOS, declared_bytes=10**8))
    assert error["message"].startswith("pets.zip has 6.2 KiB and would unpack to more than 1.9 GiB")


def test_random_bytes(desk):
    desk.file.write_bytes(noise(50, 50).tobytes())
    error = desk.refused(desk.file, "pets.tar.gz")
    assert (error["code"], "pets.tar.gz" in error["message"]) == ("archive.invalid", True)


# Files.


def _png(width: int, height: int, packed: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        pytest.param("cat/text.png", b"I am no picture", "not an image in a format that is read here", id="no image"),
        pytest.param("cat/notes.txt", b"hello", "it has no image's file ending", id="no image by its name"),
        pytest.param("cat/empty.png", b"", "the file is empty", id="zero bytes"),
        pytest.param("cat/cut.jpg", encoded(noise(90, 90), "JPEG")[:3000], "damaged", id="truncated JPEG"),
        pytest.param("cat/a.svg", b"<svg onload='alert(1)'/>", "SVG is a drawing, not pixels", id="SVG"),
        pytest.param(
            "cat/svg.png", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image in a format", id="SVG as PNG"
        ),
    ],
)
def test_a_file_that_is_no_image(name, data, reason, desk):
    left_out = desk.report(desk.bring({**PHOTOS, name: data}))
    assert list(left_out) == [name]
    assert left_out[name].startswith(reason)


def test_30000_by_30000_pixels(desk):
    """Whole and valid: about a gigabyte, were it decoded."""
    deflater = zlib.compressobj(9)
    rows = deflater.compress(bytes(30_000 * (1 + 30_000 // 8))) + deflater.flush()
    archives.zip_of(desk.file, {**PHOTOS, "cat/huge.png": _png(30_000, 30_000, rows)})
    job, peak_bytes = settle_measured(desk.queue(desk.upload()))
    assert job.status == Status.SUCCEEDED
    assert desk.report(job.pk)["cat/huge.png"].startswith("it holds too many pixels")
    assert peak_bytes < MOST_BYTES


@pytest.mark.parametrize(
    ("name", "data", "size"),
    [
        pytest.param("cat/one.png", encoded(noise(1, 1)), (1, 1), id="1 x 1"),
        pytest.param("cat/line.png", encoded(noise(4000, 1)), (4000, 1), id="4000 x 1"),
        pytest.param("cat/png.jpg", encoded(noise(7, 5)), (7, 5), id="wrong extension"),
        pytest.param("cat/cmyk.jpg", encoded(noise(9, 7).convert("CMYK"), "JPEG"), (9, 7), id="CMYK"),
        pytest.param("cat/grey.png", encoded(noise(6, 5, mode="L")), (6, 5), id="grey"),
        pytest.param("cat/p.png", encoded(noise(6, 5).convert("P"), transparency=0), (6, 5), id="palette"),
        pytest.param("cat/16.png", encoded(Image.new("I;16", (6, 5), 40_000)), (6, 5), id="16 bits"),
    ],
)
def test_an_odd_image_that_is_taken(name, data, size, desk):
    dataset = desk.bring({**PHOTOS, name: data})
    sample = desk.samples(dataset)[name]
    assert (sample["width_px"], sample["height_px"]) == size
    assert desk.report(dataset) == {}


@pytest.mark.parametrize("name", ["cat/.DS_Store", "__MACOSX/cat/._0.png", "dog/Thumbs.db", "desktop.ini"])
def test_what_systems_leave_behind_is_ignored_and_counted(name, desk):
    dataset = desk.bring({**PHOTOS, name: b"\0\0\0\1Bud1"})
    assert desk.meta(dataset)["left_out"] == {"ignored": 1}
    assert desk.report(dataset, kind="ignored").keys() == {name}


# Names.


@pytest.mark.parametrize(
    "name",
    [
        "图片",
        "صورة قطة",
        "🐈‍⬛",
        'it\'s "quoted"',
        "$(id)",
        "a,b",
        "=1+1",
        "  leading blanks",
        "<script>alert(1)</script>",
    ],
)
def test_a_name_of_an_image(name, desk):
    dataset = desk.bring({**PHOTOS, f"cat/{name}.png": CAT, f"cat/{name}.txt": b"x"})
    sample = desk.samples(dataset)[f"cat/{name}.png"]
    assert desk.report(dataset).keys() == {f"cat/{name}.txt"}
    found = desk.api.get(f"/api/v1/datasets/{dataset}/samples", query_params={"q": name.strip()}).json()["samples"]
    assert [each["id"] for each in found] == [sample["id"]]
    assert desk.api.get(sample["original"]).content == CAT


@pytest.mark.parametrize("name", ["_", "<script>alert(1)<", "con", "=1+1", "猫", " cat"])
def test_a_name_of_a_class(name, desk, user):
    dataset = desk.bring({**PHOTOS, f"{name}/0.png": CAT, f"{name}/0.txt": b"x"})
    classes = desk.api.get(f"/api/v1/datasets/{dataset}/classes").json()
    assert {one["name"]: one["n_images"] for one in classes} == {"cat": 10, "dog": 10, name: 1}
    _, rows = download(user, f"/datasets/{dataset}/report.csv")
    cells = [cell for row in rows for cell in row]
    assert any(f"{name}/0.txt" in cell for cell in cells)
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)


def test_a_class_that_is_a_script(desk):
    """No folder can have a slash in its name; a line of a labels file can."""
    lines = [f"{name} {int(name.startswith('dog'))}" for name in PHOTOS]
    labels = "<script>alert(1)</script>\ndog\n"
    dataset = desk.bring({**PHOTOS, "train.txt": "\n".join(lines).encode(), "labels.txt": labels.encode()})
    assert desk.meta(dataset)["classes"] == ["<script>alert(1)</script>", "dog"]


def test_classes_that_differ_only_in_case(desk):
    dataset = desk.bring({**PHOTOS, "Cat/0.png": CAT})
    classes = desk.api.get(f"/api/v1/datasets/{dataset}/classes").json()
    assert {one["name"]: one["n_images"] for one in classes} == {"Cat": 1, "cat": 10, "dog": 10}
    warned = desk.warnings(dataset)["class.alike"]
    assert "'Cat', 'cat'" in warned
    assert "upper and lower case" in warned


# Classes.


def test_one_class(desk):
    error = desk.refused(archives.zip_of(desk.file, {k: v for k, v in PHOTOS.items() if k.startswith("cat")}))
    assert "only one class, 'cat'" in error["message"]
    assert "at least two classes" in error["hint"]


def test_no_class_folders(desk):
    error = desk.refused(archives.zip_of(desk.file, {k.replace("/", "-"): v for k, v in PHOTOS.items()}))
    assert "No class folders were found in pets.zip" in error["message"]
    assert "One folder for each class" in error["hint"]


def test_an_empty_class(desk):
    dataset = desk.bring({**PHOTOS, "emu/notes.txt": b"none yet"})
    assert "'emu'" in desk.warnings(dataset)["class.empty"]
    assert desk.meta(dataset)["classes"] == ["cat", "dog"]


def test_an_empty_class_folder(desk):
    dataset = desk.bring({**PHOTOS, "emu/": b""})
    assert "'emu'" in desk.warnings(dataset)["class.empty"]


def test_one_image_in_a_class(desk):
    dataset = desk.bring({**PHOTOS, "emu/0.png": CAT})
    assert "'emu' (1)" in desk.warnings(dataset)["class.small"]
    assert desk.meta(dataset)["class_counts"] == {"train": [8, 8, 1], "val": [2, 2, 0]}


def test_one_image_in_every_class(desk):
    error = desk.refused(archives.zip_of(desk.file, {"cat/0.png": CAT, "dog/0.png": PHOTOS["dog/0.png"]}))
    assert "Each of the 2 classes has a single image" in error["message"]
    assert "set the validation share to 0 %" in error["hint"]


def test_classes_of_validation_that_training_does_not_know(desk):
    members = {f"train/{name}": data for name, data in PHOTOS.items()} | {
        "val/cat/10.png": encoded(noise(8, 6, seed=2000)),
        "val/emu/0.png": CAT,
    }
    dataset = desk.bring(members)
    assert "'emu'" in desk.warnings(dataset)["class.untrained"]
    assert desk.meta(dataset)["class_counts"] == {"train": [10, 10, 0], "val": [1, 0, 1]}


# The disk.


def test_a_disk_that_is_full_during_the_import(desk, monkeypatch):
    archives.zip_of(desk.file, PHOTOS)
    upload = desk.upload()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("engine.store.writer.DatasetWriter._commit", full)
        job = settle(desk.queue(upload))
    error = desk.api.get(f"/api/v1/datasets/{job.pk}").json()["error"]
    assert (job.status, error["code"]) == (Status.ERRORED, "disk.full")
    assert "about 16 MiB are missing" in error["message"]
    assert "What was uploaded is kept" in error["hint"]
    assert not storage().job(job.pk).artifacts_dir.exists()

    again = settle(desk.queue(upload))
    assert (again.status, desk.meta(again.pk)["n_images"]) == (Status.SUCCEEDED, 20)
