"""Archives that are as they should be, whatever they are called."""

from __future__ import annotations

import gzip
import stat
import struct
import tarfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard

from engine.sources import large, unpacking
from engine.sources.tree import MemberUnreadable, SourceStopped, Stray, Tree
from tests.kits import archives
from tests.kits.sources import opened
from wire.errors import ArchiveInvalid, DiskFull, UploadMissing
from wire.layout import JobDir
from wire.specs import FromUpload

PETS = {"cat/2.png": b"two", "cat/10.png": b"ten", "dog/a b.png": b"", "Vögel/é 鸟 🐦.png": b"bird"}


def _reasons(tree: Tree) -> dict[str, str]:
    return {stray.name: stray.reason for stray in tree.strays()}


@pytest.mark.parametrize("kind", archives.KINDS)
def test_names_and_bytes(kind, tmp_path):
    path = archives.archive_of(tmp_path / "upload", kind, PETS)
    with opened(path) as tree:
        assert list(tree.names()) == ["cat/2.png", "cat/10.png", "dog/a b.png", "Vögel/é 鸟 🐦.png"]
        assert {name: tree.read(name) for name in tree.names()} == PETS
        assert not tree.strays()
        assert not tree.empty_folders()
        assert tree.listed() is None
        with pytest.raises(MemberUnreadable, match="there is no such file"):
            tree.read("cat/3.png")


@pytest.mark.parametrize("kind", archives.KINDS)
def test_threads_read_at_once(kind, tmp_path):
    members = {f"cat/{index}.png": bytes([index % 256]) * (1000 + index) for index in range(300)}
    path = archives.archive_of(tmp_path / "upload", kind, members)
    with opened(path) as tree, ThreadPoolExecutor(8) as threads:
        names = [*tree.names()] * 5
        assert all(data == members[name] for name, data in zip(names, threads.map(tree.read, names), strict=True))


def test_only_the_content_says_which_kind_it_is(tmp_path):
    for kind in archives.KINDS:
        path = archives.archive_of(tmp_path / f"upload-{kind}", kind, PETS)
        with opened(path, name="holiday.docx") as tree:
            assert len(tree.names()) == len(PETS)


def test_a_tar_of_a_folder_packed_from_inside(tmp_path):
    members = [archives.special("./", tarfile.DIRTYPE), *((info, data) for info, data in _files({"./cat/1.png": b"1"}))]
    (tmp_path / "upload").write_bytes(archives.tar_of_infos(members))
    with opened(tmp_path / "upload") as tree:
        assert list(tree.names()) == ["cat/1.png"]
        assert not tree.strays()


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_and_those_of_other_scripts(tar_format, tmp_path):
    name = "/".join(["动物" * 12] * 3) + "/猫.png" if tar_format != tarfile.USTAR_FORMAT else "a" * 90 + "/" + "b" * 90
    (tmp_path / "upload").write_bytes(archives.tar_bytes({name: b"x"}, format=tar_format))
    with opened(tmp_path / "upload") as tree:
        assert list(tree.names()) == [name]
        assert tree.read(name) == b"x"


def test_zip_names_that_do_not_say_their_encoding(tmp_path):
    path = archives.zip_of(tmp_path / "upload", {"cat/aaaaaa.png": b"x", "dog/bb.png": b"y"})
    data = path.read_bytes().replace(b"aaaaaa", "鸟é!".encode()).replace(b"bb", b"\x81\x82")
    path.write_bytes(data)
    with opened(path) as tree:
        assert list(tree.names()) == ["cat/鸟é!.png", "dog/üé.png"]


def test_a_zip_that_names_its_utf8_in_an_extra_field(tmp_path):
    raw, real = b"cat/??.png", "cat/鸟.png"
    field = struct.pack("<BL", 1, zlib.crc32(raw)) + real.encode()
    with zipfile.ZipFile(tmp_path / "upload", "w") as archive:
        info = zipfile.ZipInfo(raw.decode())
        info.extra = struct.pack("<2H", 0x7075, len(field)) + field
        archive.writestr(info, b"x")
    with opened(tmp_path / "upload") as tree:
        assert list(tree.names()) == [real]


def test_a_zip_of_64_bits(tmp_path):
    with zipfile.ZipFile(tmp_path / "upload", "w") as archive:
        for name, data in PETS.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                member.write(data)
    with opened(tmp_path / "upload") as tree:
        assert {name: tree.read(name) for name in tree.names()} == PETS


def test_a_zip_of_more_than_65535_members_needs_the_64_bit_directory(tmp_path):
    path = archives.tiny_zip(tmp_path / "upload", 66_000)
    with opened(path) as tree:
        assert len(tree.names()) == 66_000
        assert tree.read("class 99/65999.png") == b"tiny"


def test_zip_with_a_comment_and_folders(tmp_path):
    with zipfile.ZipFile(tmp_path / "upload", "w") as archive:
        archive.comment = b"my pets PK\x05\x06 and more"
        archive.writestr("pets/", b"")
        archive.writestr("pets/cat/", b"")
        archive.writestr("pets/dog/1.png", b"x")
    with opened(tmp_path / "upload") as tree:
        assert list(tree.names()) == ["pets/dog/1.png"]
        assert list(tree.empty_folders()) == ["pets/cat"]


@pytest.mark.parametrize("kind", archives.KINDS)
def test_what_is_left_aside_by_name(kind, tmp_path):
    names = (
        "cat/1.png cat/.DS_Store __MACOSX/cat/._1.png cat/Thumbs.db cat/desktop.ini"
        " more/dogs.ZIP more/dogs.tar.gz more/dogs.7z"
    )
    members = dict.fromkeys(names.split(), b"x")
    with opened(archives.archive_of(tmp_path / "upload", kind, members)) as tree:
        assert list(tree.names()) == ["cat/1.png"]
        assert {stray.name for stray in tree.strays() if stray.clutter} == {
            "cat/.DS_Store", "__MACOSX/cat/._1.png", "cat/Thumbs.db", "cat/desktop.ini",
        }  # fmt: skip
        assert {stray for stray in tree.strays() if not stray.clutter} == {
            Stray(f"more/dogs.{ending}", "it is an archive itself; unpack it first")
            for ending in ("ZIP", "tar.gz", "7z")
        }


def test_classes_that_differ_in_case_stay_apart(tmp_path):
    with opened(
        archives.zip_of(tmp_path / "upload", {"Cat/1.png": b"1", "cat/1.png": b"2", "con/1.png": b"3"})
    ) as tree:
        assert [tree.read(name) for name in ("Cat/1.png", "cat/1.png", "con/1.png")] == [b"1", b"2", b"3"]


def test_several_frames_of_zstd_and_members_of_gzip(tmp_path):
    tar = archives.tar_bytes(PETS)
    (tmp_path / "zst").write_bytes(
        b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + b"".join(map(zstandard.compress, _halves(tar)))
    )
    (tmp_path / "gz").write_bytes(b"".join(map(gzip.compress, _halves(tar))))
    for name in ("zst", "gz"):
        with opened(tmp_path / name) as tree:
            assert {member: tree.read(member) for member in tree.names()} == PETS


def test_a_member_with_holes_of_zeros_is_whole(tmp_path):
    members = {"a.png": bytes(3 * 2**20) + b"x", "b.png": bytes(2 * 2**20 + 5)}
    with opened(archives.archive_of(tmp_path / "upload", "tar.gz", members)) as tree:
        assert {name: tree.read(name) for name in tree.names()} == members


def test_unpacking_tells_how_far_it_is_and_stops_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", 4096)
    path = archives.archive_of(tmp_path / "upload", "tar.gz", {"cat/1.png": bytes(range(256)) * 400})
    told: list[tuple[int, int]] = []
    with opened(path, on_progress=lambda done, total: told.append((done, total))):
        assert told[-1] == (path.stat().st_size, path.stat().st_size)
        assert [done for done, _ in told] == sorted(done for done, _ in told)
    with pytest.raises(SourceStopped), opened(path, stopped=True):
        pass


def test_a_disk_that_is_full(tmp_path, monkeypatch):
    path = archives.archive_of(tmp_path / "upload", "tar.zst", PETS)
    usage = unpacking.shutil.disk_usage(tmp_path)._replace(free=200 * 2**20)
    monkeypatch.setattr(unpacking.shutil, "disk_usage", lambda _: usage)
    with (
        pytest.raises(
            DiskFull, match=r"too little room to unpack pets: about 120\.0 MiB \(125,829,120 bytes\) are missing"
        ),
        opened(path, name="pets"),
    ):
        pass
    assert path.exists()


def test_a_write_that_fails_is_a_full_disk(tmp_path, monkeypatch):
    path = archives.archive_of(tmp_path / "upload", "tar.gz", PETS)
    with Path("/dev/full").open("r+b", buffering=0) as full_disk:
        monkeypatch.setattr(unpacking.tempfile, "TemporaryFile", lambda **_: full_disk)
        with pytest.raises(DiskFull, match=r"bytes\) are missing"), opened(path):
            pass


def test_an_upload_that_is_gone(tmp_path):
    with (
        pytest.raises(UploadMissing, match=r"'pets\.zip' is not there any more"),
        opened(tmp_path / "nowhere", name="pets.zip"),
    ):
        pass


def test_nothing_is_left_in_the_scratch_folder_nor_beside_it(tmp_path):
    path = archives.archive_of(tmp_path / "upload", "tar.gz", PETS)
    with opened(path):
        assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"upload"}
    assert not any((tmp_path / "job" / "scratch").iterdir())


def test_large_files_are_looked_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.sources.zip.LARGE_BYTES", 1000)
    monkeypatch.setattr("engine.sources.tar.LARGE_BYTES", 1000)
    monkeypatch.setattr(large, "LARGE_BYTES", 1000)
    png = b"\x89PNG\r\n\x1a\n" + bytes(2000)
    for kind in archives.KINDS:
        path = archives.archive_of(
            tmp_path / kind, kind, {"a.png": bytes(2000), "b.png": png, "train.txt": bytes(2000)}
        )
        with opened(path) as tree:
            assert tree.read("b.png") == png
            assert tree.read("train.txt") == bytes(2000)
            with pytest.raises(MemberUnreadable, match="not an image in a format that is read here"):
                tree.read("a.png")


def test_links_and_devices_in_a_zip(tmp_path):
    members = [
        ("cat/1.png", b"x", stat.S_IFREG | 0o644),
        ("cat/link.png", b"/etc/passwd", stat.S_IFLNK | 0o777),
        ("cat/pipe.png", b"", stat.S_IFIFO | 0o644),
        ("cat/disk.png", b"", stat.S_IFBLK | 0o644),
    ]
    with opened(archives.zip_with_mode(tmp_path / "upload", members)) as tree:
        assert list(tree.names()) == ["cat/1.png"]
        assert _reasons(tree) == {
            "cat/link.png": "it is a link",
            "cat/pipe.png": "it is no ordinary file",
            "cat/disk.png": "it is no ordinary file",
        }


def test_links_and_devices_in_a_tar(tmp_path):
    sparse = tarfile.TarInfo("cat/sparse.png")
    sparse.type = tarfile.GNUTYPE_SPARSE
    paxed = tarfile.TarInfo("cat/paxed.png")
    paxed.pax_headers = {"GNU.sparse.major": "1"}
    members = [
        *_files({"cat/1.png": b"x"}),
        archives.special("cat/link.png", tarfile.SYMTYPE, "../../../etc/passwd"),
        archives.special("cat/hard.png", tarfile.LNKTYPE, "cat/1.png"),
        archives.special("cat/tty.png", tarfile.CHRTYPE),
        archives.special("cat/disk.png", tarfile.BLKTYPE),
        archives.special("cat/pipe.png", tarfile.FIFOTYPE),
        (sparse, b""),
        (paxed, b""),
        *_files({"cat/2.png": b"y"}),
    ]
    (tmp_path / "upload").write_bytes(archives.tar_of_infos(members, format=tarfile.PAX_FORMAT))
    with opened(tmp_path / "upload") as tree:
        assert {name: tree.read(name) for name in tree.names()} == {"cat/1.png": b"x", "cat/2.png": b"y"}
        assert _reasons(tree) == {
            "cat/link.png": "it is a link",
            "cat/hard.png": "it is a hard link",
            "cat/tty.png": "it is no ordinary file",
            "cat/disk.png": "it is no ordinary file",
            "cat/pipe.png": "it is no ordinary file",
            "cat/sparse.png": "it is stored with holes (sparse); pack it again without that",
            "cat/paxed.png": "it is stored with holes (sparse); pack it again without that",
        }


def test_the_path_of_an_upload_is_relative_to_the_job(tmp_path):
    job = JobDir(tmp_path / "jobs" / "7")
    assert job.resolve(FromUpload(path="../../uploads/ab", name="x").path) == tmp_path / "uploads" / "ab"


def test_a_zip_in_several_parts(tmp_path):
    path = archives.zip_of(tmp_path / "upload", PETS)
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, len(data) - 18, 3)
    path.write_bytes(data)
    with pytest.raises(ArchiveInvalid, match="is one part of a zip in several parts"), opened(path):
        pass


def _files(members: archives.Members) -> list[tuple[tarfile.TarInfo, bytes]]:
    made = []
    for name, data in dict(members).items():
        info = tarfile.TarInfo(name)
        info.size = len(data)
        made.append((info, data))
    return made


def _halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]
