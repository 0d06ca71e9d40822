"""The archive: what others read of it, any range of it, and files that are not any more what they were."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bundle import zip_stream
from engine.bundle.zip_stream import Member, MemberChanged, ZipStream
from wire.errors import NotFound

TEXTS = [Member.of("b/two.txt", "two"), Member.of("a.txt", ""), Member.of("b/one.bin", bytes(range(256)))]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A file of several chunks, and the member that it is."""
    monkeypatch.setattr(zip_stream, "CHUNK_BYTES", 1000)
    content = bytes(range(256)) * 20
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    return Member("m/model.onnx", len(content), zlib.crc32(content), hashlib.sha256(content).hexdigest(), path)


def whole(archive):
    return b"".join(archive.stream())


def test_others_read_what_was_put_in(stored):
    archive = ZipStream([*TEXTS, stored])
    data = whole(archive)
    assert len(data) == archive.size_bytes
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        assert read.namelist() == ["a.txt", "b/one.bin", "b/two.txt", "m/model.onnx"]
        assert read.read("m/model.onnx") == stored.source.read_bytes()
        assert read.read("b/two.txt") == b"two"
        assert {each.date_time for each in read.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {each.external_attr >> 16 for each in read.infolist()} == {0o100644}
        assert {each.compress_type for each in read.infolist()} == {zipfile.ZIP_STORED}


def test_the_order_in_which_members_come_changes_nothing(stored):
    assert whole(ZipStream([stored, *TEXTS])) == whole(ZipStream([*reversed(TEXTS), stored]))


@given(data=st.data())
def test_any_range_is_that_of_the_whole(data):
    archive = ZipStream(TEXTS)
    complete = whole(archive)
    start = data.draw(st.integers(0, len(complete)))
    stop = data.draw(st.integers(start, len(complete)))
    assert b"".join(archive.stream(start, stop)) == complete[start:stop]


def test_a_range_within_a_file_is_read_from_its_middle(stored):
    archive = ZipStream([stored])
    complete = whole(archive)
    assert b"".join(archive.stream(1500, 4321)) == complete[1500:4321]


@pytest.mark.parametrize("limit", [100, 2000])
def test_sizes_and_places_beyond_32_bits_are_written_as_zip64(stored, monkeypatch, limit):
    """With a limit that small files reach; what stands in the old fields is then what the format says."""
    monkeypatch.setattr(zip_stream, "_MARK_FROM", limit)
    data = whole(ZipStream([*TEXTS, stored]))
    assert b"PK\x06\x06" in data
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        assert read.getinfo("m/model.onnx").file_size == stored.n_bytes
        assert read.read("b/one.bin") == bytes(range(256))


def test_more_members_than_the_old_field_counts(monkeypatch):
    monkeypatch.setattr(zip_stream, "_MARK_16", 3)
    data = whole(ZipStream(TEXTS))
    assert b"PK\x06\x06" in data
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert len(read.namelist()) == 3


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../b", "a//b", "", "a\\b", "a\nb", "caf\u00e9", "a/."])
def test_no_path_leads_elsewhere(path):
    with pytest.raises(ValueError, match="no path inside"):
        ZipStream([Member.of(path, "")])


def test_no_path_is_there_twice():
    with pytest.raises(ValueError, match="the same path"):
        ZipStream([Member.of("a", "1"), Member.of("a", "2")])


def test_a_file_that_is_gone_or_of_another_size_is_told_before_the_first_byte(stored):
    archive = ZipStream([stored])
    archive.check()
    stored.source.write_bytes(b"short")
    with pytest.raises(NotFound, match=r"m/model\.onnx has 5 bytes"):
        archive.check()
    stored.source.unlink()
    with pytest.raises(NotFound, match="gone"):
        archive.check()


def test_a_file_of_another_content_breaks_the_stream_off_before_its_end(stored):
    content = bytearray(stored.source.read_bytes())
    content[17] ^= 1
    stored.source.write_bytes(content)
    chunks = ZipStream([stored]).stream()
    n_sent = sum(len(next(chunks)) for _ in range(6))
    assert n_sent < stored.n_bytes
    with pytest.raises(MemberChanged):
        next(chunks)


def test_a_file_that_grew_or_shrank_since_it_was_looked_at_is_not_sent(stored):
    with pytest.raises(MemberChanged):
        list(replace(stored, n_bytes=stored.n_bytes - 1).read(0, 10))
    chunks = ZipStream([stored]).stream()
    next(chunks)
    next(chunks)
    with stored.source.open("r+b") as file:
        file.truncate(1500)
    with pytest.raises(MemberChanged, match="shorter"):
        list(chunks)
