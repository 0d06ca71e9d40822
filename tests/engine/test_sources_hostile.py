"""Archives made to do harm, or damaged on the way: a clear message, nothing written elsewhere, memory flat."""

from __future__ import annotations

import gzip
import os
import random
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.sources import indexed, tar, unpacking, zip_directory
from engine.sources.members import Listing
from engine.sources.tree import MAX_MEMBER_BYTES, MemberUnreadable, Tree
from tests.kits import archives
from tests.kits.sources import opened
from tests.kits.trees import encoded, noise
from wire.errors import ArchiveInvalid, FoveaError

_GOOD = {"cat/1.png": b"x"}
_ESCAPES = {
    "../../evil.png": "its name leads out of the archive (..)",
    "cat/../../evil.png": "its name leads out of the archive (..)",
    "/tmp/evil.png": "its name is an absolute path",  # noqa: S108 - refused
    "//server/evil.png": "its name is an absolute path",
    "cat\\evil.png": "its name holds a backslash; pack it again with / between folders",
    "..\\evil.png": "its name holds a backslash; pack it again with / between folders",
    "C:/evil.png": "its name begins with a drive letter",
    "c:evil.png": "its name begins with a drive letter",
    "cat//evil.png": "a part of its name is empty",
    "cat/./evil.png": "a part of its name is empty",
    "cat/" + "n" * 2000 + ".png": "its name is longer than 1024 characters",
}


def _reasons(tree: Tree) -> dict[str, str]:
    return {stray.name: stray.reason for stray in tree.strays()}


def _refused(path: Path, match: str, **options: Any) -> ArchiveInvalid:
    """What opening it raises; nothing may lie anywhere but in the job's folder afterwards."""
    before = set(path.parent.rglob("*"))
    with pytest.raises(ArchiveInvalid, match=match) as caught, opened(path, **options):
        pass
    new = {file.relative_to(path.parent).as_posix() for file in set(path.parent.rglob("*")) - before}
    assert new <= {"job", "job/scratch"}
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("kind", archives.KINDS)
def test_names_that_lead_elsewhere_are_refused_one_by_one(kind, tmp_path):
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    path = archives.archive_of(folder / "upload", kind, {**dict.fromkeys(_ESCAPES, b"evil"), **_GOOD})
    with opened(path) as tree:
        assert list(tree.names()) == ["cat/1.png"]
        reasons = _reasons(tree)
        assert list(reasons.values()) == list(_ESCAPES.values())
        assert all(len(name) < 250 for name in reasons)
        for name in _ESCAPES:
            with pytest.raises(MemberUnreadable):
                tree.read(name)
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"upload"}
    assert not Path("/tmp/evil.png").exists()  # noqa: S108


def test_a_nul_in_a_zip_name(tmp_path):
    path = archives.zip_of(tmp_path / "upload", {"cat/1_png": b"x", "cat/2.png": b"y"})
    path.write_bytes(path.read_bytes().replace(b"1_png", b"1\0png"))
    with opened(path) as tree:
        assert list(tree.names()) == ["cat/2.png"]
        assert _reasons(tree) == {"cat/1\N{REPLACEMENT CHARACTER}png": "its name holds a NUL character"}


def test_names_that_are_no_utf8(tmp_path):
    data = archives.tar_bytes({"cat/1.png": b"x", "cat/2.png": b"y"})
    block = bytearray(data)
    at = data.index(b"cat/1.png")
    block[at + 4] = 0xFF
    block[at + 148 : at + 156] = b"        "
    block[at + 148 : at + 156] = b"%06o\0 " % sum(block[at : at + 512])
    (tmp_path / "upload").write_bytes(block)
    with opened(tmp_path / "upload") as tree:
        assert list(tree.names()) == ["cat/2.png"]
        assert _reasons(tree) == {"cat/?.png": "its name is not valid UTF-8"}


@pytest.mark.parametrize("kind", archives.KINDS)
def test_of_members_with_one_name_the_first_is_kept(kind, tmp_path):
    path = archives.archive_of(tmp_path / "upload", kind, [("cat/1.png", b"first"), ("./cat/1.png", b"second")])
    with opened(path) as tree:
        assert tree.read("cat/1.png") == b"first"
        assert _reasons(tree) == {"cat/1.png": "another file has the same name"}


def test_encrypted_zips(tmp_path):
    members = {"cat/1.png": b"x", "cat/2.png": b"y"}
    path = archives.encrypted_zip(tmp_path / "some", members, only=["cat/1.png"])
    with opened(path) as tree:
        assert list(tree.names()) == ["cat/2.png"]
        assert _reasons(tree) == {"cat/1.png": "it is encrypted; pack it again without a password"}
    error = _refused(archives.encrypted_zip(tmp_path / "all", members), r"pets\.zip is encrypted", name="pets.zip")
    assert "without a password" in error.hint


def test_a_broken_checksum_is_that_members_alone(tmp_path):
    members = {"cat/1.png": b"good" * 99, "cat/2.png": b"poor" * 99}
    path = archives.broken_checksum_zip(tmp_path / "upload", members, broken="cat/2.png")
    with opened(path) as tree:
        assert tree.read("cat/1.png") == members["cat/1.png"]
        with pytest.raises(MemberUnreadable, match="its checksum does not match"):
            tree.read("cat/2.png")


@pytest.mark.parametrize(
    ("declared", "why"),
    [(10, "lies about its size: 10 bytes"), (200_000, "lies about its size: 200,000"), (0, "lies about its size: 0")],
)
def test_a_zip_that_lies_about_sizes(declared, why, tmp_path):
    path = archives.lying_zip(tmp_path / "upload", {"cat/1.png": bytes(100_000)}, declared_bytes=declared)
    with opened(path) as tree, pytest.raises(MemberUnreadable, match=why):
        tree.read("cat/1.png")


def test_a_zip_whose_members_reach_beyond_it(tmp_path):
    path = archives.lying_zip(tmp_path / "upload", _GOOD, declared_bytes=1, packed_bytes=5000)
    _refused(path, "is damaged: a member does not lie inside it")


def test_compressed_bytes_that_are_damaged(tmp_path):
    path = archives.zip_of(tmp_path / "upload", {"cat/1.png": bytes(range(256)) * 50, "cat/2.png": b"good"})
    raw = bytearray(path.read_bytes())
    raw[45:120] = b"\xff" * 75
    path.write_bytes(raw)
    with opened(path) as tree:
        with pytest.raises(MemberUnreadable, match="its compressed bytes are damaged"):
            tree.read("cat/1.png")
        assert tree.read("cat/2.png") == b"good"


def test_a_method_that_is_not_read(tmp_path):
    path = archives.zip_of(tmp_path / "upload", _GOOD, compression=zipfile.ZIP_LZMA)
    with opened(path) as tree:
        assert not tree.names()
        assert "compressed with method 14; pack it again with the usual one" in _reasons(tree)["cat/1.png"]


def test_members_that_are_too_large(tmp_path):
    path = archives.lying_zip(tmp_path / "zip", _GOOD, declared_bytes=MAX_MEMBER_BYTES + 1)
    with opened(path) as tree:
        assert _reasons(tree) == {"cat/1.png": "the file is larger than 512 MiB"}
    info = tarfile.TarInfo("cat/1.png")
    info.size = MAX_MEMBER_BYTES + 1
    with (tmp_path / "tar").open("wb") as file:
        file.write(info.tobuf())
        file.truncate(512 + info.size + 1024 + 511)
    with opened(tmp_path / "tar") as tree:
        assert _reasons(tree) == {"cat/1.png": "the file is larger than 512 MiB"}


@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("kind", archives.KINDS)
def test_archives_cut_short(kind, share, tmp_path):
    members = {f"cat/{index}.png": encoded(noise(16, 16, seed=index)) for index in range(30)}
    path = archives.cut(archives.archive_of(tmp_path / "upload", kind, members), share)
    error = _refused(path, r"pets is cut short: its end is missing\.", name="pets")
    assert "Upload it again" in error.hint


def test_a_tar_cut_between_two_members(tmp_path):
    data = archives.tar_bytes({"cat/1.png": b"x" * 512, "cat/2.png": b"y" * 512})
    (tmp_path / "upload").write_bytes(data[: 2 * 1024])
    _refused(tmp_path / "upload", "is cut short")


def test_a_cut_zip_with_a_whole_zip_inside_is_not_taken_for_that_one(tmp_path):
    inner = archives.zip_of(tmp_path / "inner", {"secret/1.png": b"x"}).read_bytes()
    path = archives.zip_of(
        tmp_path / "upload", {"a.zip": inner, "cat/1.png": b"y" * 99}, compression=zipfile.ZIP_STORED
    )
    data = path.read_bytes()
    for n_bytes in (data.index(inner) + len(inner), data.index(inner) + len(inner) + 60):
        path.write_bytes(data[:n_bytes])
        _refused(path, "is cut short|is damaged")


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(seed, tmp_path):
    (tmp_path / "upload").write_bytes(random.Random(seed).randbytes(10_000))  # noqa: S311
    _refused(
        tmp_path / "upload",
        r"pets\.zip is no archive that is read here \(zip, tar, tar\.gz, tar\.zst\)",
        name="pets.zip",
    )


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd"])
def test_random_bytes_that_begin_like_an_archive(magic, tmp_path):
    (tmp_path / "upload").write_bytes(magic + random.Random(1).randbytes(10_000))  # noqa: S311
    _refused(tmp_path / "upload", "is cut short|is damaged|holds no tar|needs more than")


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"", "is empty"),
        (b"7z\xbc\xaf\x27\x1c rest", "is a 7z archive, which is not read here"),
        (b"Rar!\x1a\x07\x01\x00 rest", "is a RAR archive"),
        (b"BZh91AY&SY", "is compressed with bzip2"),
        (b"\xfd7zXZ\x00\x00", "is compressed with xz"),
        (encoded(noise(8, 8), "JPEG"), "is a single picture, not an archive of pictures"),
        (encoded(noise(8, 8), "BMP"), "is a single picture"),
        (encoded(noise(8, 8), "WEBP"), "is a single picture"),
        (gzip.compress(b"only text"), "is compressed, but holds no tar archive"),
        (zstandard.compress(encoded(noise(8, 8))), "is compressed, but holds no tar archive"),
        (b"cat/1.png 0\ncat/2.png 1\n", "is no archive that is read here"),
        (bytes(10_240), "is no archive that is read here"),
    ],
    # Their bytes as names would differ between processes: compressed ones hold the time.
    ids=["empty", "7z", "rar", "bz2", "xz", "jpeg", "bmp", "webp", "gz-text", "zst-picture", "list", "zeros"],
)
def test_other_files(head, says, tmp_path):
    (tmp_path / "upload").write_bytes(head)
    _refused(tmp_path / "upload", says)


def test_archives_without_a_file(tmp_path):
    _refused(archives.zip_of(tmp_path / "zip", {}), "holds no files")
    (tmp_path / "tar").write_bytes(archives.tar_of_infos([archives.special("cat", tarfile.DIRTYPE)]))
    _refused(tmp_path / "tar", "holds no files")


def test_damage_in_the_middle_of_a_compressed_tar(tmp_path):
    for kind in ("tar.gz", "tar.zst"):
        members = {f"cat/{index}.png": encoded(noise(64, 64, seed=index)) for index in range(20)}
        path = archives.archive_of(tmp_path / kind, kind, members)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 2000] = bytes(2000)
        path.write_bytes(data)
        _refused(path, "is damaged")


def test_damaged_tar_headers(tmp_path):
    path = tmp_path / "upload"
    path.write_bytes(archives.tar_bytes({"cat/1.png": b"x"})[:1024] + b"\x01" * 2048)
    _refused(path, "is damaged: there is no header at byte 1,024")
    info = tarfile.TarInfo("cat/1.png")
    info.size = -512
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    _refused(path, "states a size below zero")
    huge = tarfile.TarInfo("././@LongLink")
    huge.type, huge.size = tarfile.GNUTYPE_LONGNAME, 2 * 2**20
    path.write_bytes(huge.tobuf() + bytes(3 * 2**20))
    _refused(path, "more than is read")
    pax = tarfile.TarInfo("x")
    pax.type, pax.size = tarfile.XHDTYPE, 20
    path.write_bytes(pax.tobuf() + b"999999 path=elsewher" + bytes(2048))
    _refused(path, "a pax record cannot be read")


def test_pax_and_long_names_lead_nowhere_either(tmp_path):
    deep = "x/" * 60
    for tar_format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        data = archives.tar_bytes({f"../{deep}evil.png": b"x", f"/{deep}evil.png": b"y"}, format=tar_format)
        (tmp_path / "upload").write_bytes(data)
        with opened(tmp_path / "upload") as tree:
            assert not tree.names()
            assert sorted(_reasons(tree).values()) == [
                "its name is an absolute path", "its name leads out of the archive (..)",
            ]  # fmt: skip


def test_a_bomb_of_10_gb_is_refused_by_its_directory(tmp_path):
    path = archives.zip_bomb(tmp_path / "upload", n_members=200)
    assert path.stat().st_size < 11 * 10**6
    _refused(path, r"bomb\.zip has 9\.\d MiB and would unpack to more than 9\.3 GiB", name="bomb.zip")


@pytest.mark.parametrize("kind", ["tar.gz", "tar.zst"])
def test_a_bomb_in_a_compressed_tar_is_stopped_while_it_grows(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "_UNASKED_BYTES", 64 * 2**20)
    path = archives.tar_bomb(tmp_path / "upload", kind, unpacked_bytes=300 * 2**20)
    _refused(path, "over 100 times as much")


def test_members_that_share_their_bytes(tmp_path):
    _refused(archives.overlapping_zip(tmp_path / "upload", 1000), "is damaged: ")
    # The bodies do not overlap, but two entries claim the same one.
    path = archives.zip_of(tmp_path / "twice", {"cat/1.png": b"x" * 50, "cat/2.png": b"y" * 50})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<L", data, at + 42, 0)
    path.write_bytes(data)
    _refused(path, "its members lie over one another")


def test_more_members_than_are_indexed(tmp_path, monkeypatch):
    monkeypatch.setattr(indexed, "MAX_MEMBERS", 50)
    for kind in archives.KINDS:
        path = archives.archive_of(tmp_path / kind, kind, archives.tiny_members(60))
        _refused(path, "holds more than 50 files")
    monkeypatch.setattr(tar, "_MAX_HEADERS", 10)
    _refused(tmp_path / "tar", "holds more than 10 headers")


def test_a_directory_that_says_it_is_huge(tmp_path, monkeypatch):
    path = archives.zip_of(tmp_path / "upload", _GOOD)
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, len(data) - 10, 3 * 2**30)
    path.write_bytes(data)
    _refused(path, "has a directory of 3,221,225,472 bytes, more than is read")
    struct.pack_into("<L", data, len(data) - 10, 20)
    path.write_bytes(data)
    _refused(path, "its directory is not where it says")


def test_a_window_that_would_fill_the_memory(tmp_path):
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "upload").write_bytes(compressor.compress(archives.tar_bytes(_GOOD)) + compressor.flush())
    error = _refused(tmp_path / "upload", r"needs more than 128\.0 MiB of memory to unpack")
    assert "--long=27" in error.hint


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.text(max_size=30), st.from_regex(r"[./\\a:]{0,12}", fullmatch=True)), max_size=20))
def test_no_name_ever_leads_anywhere(raw_names):
    listing = Listing()
    for raw in raw_names:
        listing.add_file(raw, size_bytes=1)
    names = listing.names()
    assert len(set(names)) == len(names)
    assert len(names) + len(listing.strays()) == len(raw_names)
    for name in names:
        assert not re.search(r"^/|\\|\0|^[A-Za-z]:", name)
        assert {"", ".", ".."}.isdisjoint(name.split("/"))
        assert not Path(os.path.normpath(f"/root/{name}")).relative_to("/root").is_absolute()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(archives.KINDS))
def test_any_damage_ends_in_a_message(tmp_path_factory, data, kind):
    folder = tmp_path_factory.mktemp("damage")
    members = {f"cat/{index}.png": bytes(range(100)) for index in range(4)}
    path = archives.archive_of(folder / "upload", kind, members)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        with opened(path) as tree:
            for name in tree.names():
                try:
                    assert len(tree.read(name)) <= MAX_MEMBER_BYTES
                except MemberUnreadable:
                    pass
    except FoveaError as error:
        assert error.message  # noqa: PT017
    assert {file.name for file in folder.rglob("*") if file.is_file()} == {"upload"}


_PEAK = """
import sys
from pathlib import Path
from tests.kits.memory import peak_bytes
from tests.kits.sources import opened
with opened(Path(sys.argv[1])) as tree:
    assert all(tree.read(name) == b"tiny" for name in tree.names())
    print(len(tree.names()), peak_bytes())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_200000_tiny_members_fit_into_memory(kind, tmp_path):
    path = tmp_path / "upload"
    if kind == "zip":
        archives.tiny_zip(path, 200_000)
    else:
        archives.compressed(path, kind, archives.tiny_tar(200_000))
    told = subprocess.run([sys.executable, "-c", _PEAK, path], check=True, capture_output=True, text=True).stdout
    n_names, peak_bytes = map(int, told.split())
    assert n_names == 200_000
    assert peak_bytes < 10**9


def test_the_limits_of_a_directory_leave_room_for_what_is_usual():
    assert zip_directory._MAX_DIRECTORY_BYTES >= indexed.MAX_MEMBERS * 200
