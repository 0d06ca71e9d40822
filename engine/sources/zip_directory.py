"""The directory at the end of a zip: read by ourselves, in pieces, because its sizes are claims of whoever wrote it.

``zipfile`` reads the whole directory into memory and keeps some 700 bytes for each member, before any limit is asked.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from engine.sources.indexed import SPLIT_HINT, cut_short, damaged, demand_few
from wire.errors import ArchiveInvalid

_MAX_DIRECTORY_BYTES: Final = 256 * 2**20
"""A million entries take 100 MB with usual names."""

_END: Final = struct.Struct("<4s4H2LH")
_END64_LOCATOR: Final = struct.Struct("<4sLQL")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_ENTRY: Final = struct.Struct("<4s4B4H3L5H2L")
_UTF8_FLAG: Final = 0x800
_ENCRYPTED_FLAGS: Final = 0x1 | 0x40 | 0x2000
_UNIX: Final = 3
_ZIP64_EXTRA: Final = 0x0001
_UNICODE_PATH_EXTRA: Final = 0x7075
_UNKNOWN: Final = 0xFFFFFFFF


class Entry(NamedTuple):
    """One line of the directory. Nothing of it is proven."""

    name: str
    """With surrogates where it is no UTF-8."""
    name_bytes: int
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    offset: int
    mode: int
    """Type bits of Unix, 0 where there are none."""
    is_encrypted: bool

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/") or stat.S_ISDIR(self.mode)


class Directory(NamedTuple):
    offset: int
    n_bytes: int


def find_directory(file: BinaryIO, archive: str) -> Directory:
    """Where the directory lies.

    Raises:
        ArchiveInvalid: there is none, it lies elsewhere than it says, or it is larger than it may be.
    """
    file_bytes = os.fstat(file.fileno()).st_size
    end_at, fields = _find_end(file, file_bytes, archive)
    _, disk, first_disk, _, n_entries, n_bytes, offset, _ = fields
    locator_at = end_at - _END64_LOCATOR.size
    if locator_at >= 0:
        magic, _, end64_at, _ = _END64_LOCATOR.unpack(os.pread(file.fileno(), _END64_LOCATOR.size, locator_at))
        if magic == b"PK\x06\x07":
            end_at = end64_at
            record = os.pread(file.fileno(), _END64.size, end64_at) if end64_at <= locator_at - _END64.size else b""
            if record[:4] != b"PK\x06\x06":
                raise damaged(archive, "its 64-bit directory is not where it says")
            *_, disk, first_disk, _, n_entries, n_bytes, offset = _END64.unpack(record)
    if disk not in (0, 0xFFFF) or first_disk not in (0, 0xFFFF):
        raise ArchiveInvalid(f"{archive} is one part of a zip in several parts.", hint="Pack it again as one file.")
    demand_few(n_entries, archive)
    if n_bytes > _MAX_DIRECTORY_BYTES:
        raise ArchiveInvalid(f"{archive} has a directory of {n_bytes:,} bytes, more than is read.", hint=SPLIT_HINT)
    if offset + n_bytes != end_at:
        raise damaged(archive, "its directory is not where it says")
    return Directory(offset, n_bytes)


def entries(file: BinaryIO, directory: Directory, archive: str) -> Iterator[Entry]:
    """Every entry of the directory, in its order.

    Raises:
        ArchiveInvalid: an entry is damaged.
    """
    file.seek(directory.offset)
    left = directory.n_bytes
    while left:
        fixed = file.read(_ENTRY.size)
        if len(fixed) < _ENTRY.size or fixed[:4] != b"PK\x01\x02":
            raise damaged(archive, "its directory cannot be read")
        fields = _ENTRY.unpack(fixed)
        name_bytes, extra_bytes, comment_bytes = fields[12:15]
        left -= _ENTRY.size + name_bytes + extra_bytes + comment_bytes
        if left < 0:
            raise damaged(archive, "its directory cannot be read")
        raw = file.read(name_bytes)
        extra = dict(_extra_fields(file.read(extra_bytes)))
        file.seek(comment_bytes, os.SEEK_CUR)
        yield _entry(fields, raw, extra, archive)


def _entry(fields: tuple[int, ...], raw: bytes, extra: dict[int, bytes], archive: str) -> Entry:
    system, flags, method, crc, external, offset = fields[2], fields[5], fields[6], fields[9], fields[17], fields[18]
    packed_bytes, size_bytes = fields[10], fields[11]
    wide = memoryview(extra.get(_ZIP64_EXTRA, b""))
    try:
        if size_bytes == _UNKNOWN:
            size_bytes, wide = struct.unpack_from("<Q", wide)[0], wide[8:]
        if packed_bytes == _UNKNOWN:
            packed_bytes, wide = struct.unpack_from("<Q", wide)[0], wide[8:]
        if offset == _UNKNOWN:
            offset = struct.unpack_from("<Q", wide)[0]
    except struct.error:
        raise damaged(archive, "a 64-bit size is missing in its directory") from None
    return Entry(
        name=_decoded(raw, is_utf8=bool(flags & _UTF8_FLAG), unicode_path=extra.get(_UNICODE_PATH_EXTRA, b"")),
        name_bytes=len(raw),
        method=method,
        crc=crc,
        packed_bytes=packed_bytes,
        size_bytes=size_bytes,
        offset=offset,
        mode=stat.S_IFMT(external >> 16) if system == _UNIX else 0,
        is_encrypted=bool(flags & _ENCRYPTED_FLAGS),
    )


def _decoded(raw: bytes, *, is_utf8: bool, unicode_path: bytes) -> str:
    """MacOS and many libraries store UTF-8 without saying so; what is no UTF-8 is in the code page of the first PCs."""
    if is_utf8:
        return raw.decode(errors="surrogateescape")
    if len(unicode_path) > 5 and struct.unpack_from("<L", unicode_path, 1)[0] == zlib.crc32(raw):
        return unicode_path[5:].decode(errors="surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp437")


def _extra_fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    while len(extra) >= 4:
        kind, n_bytes = struct.unpack_from("<2H", extra)
        yield kind, extra[4 : 4 + n_bytes]
        extra = extra[4 + n_bytes :]


def _find_end(file: BinaryIO, file_bytes: int, archive: str) -> tuple[int, tuple[int, ...]]:
    """The record that ends a zip: its comment must reach the end of the file, else it belongs to an archive inside."""
    tail_at = max(0, file_bytes - _END.size - 0xFFFF)
    tail = os.pread(file.fileno(), file_bytes - tail_at, tail_at)
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at)) >= 0:
        if at + _END.size <= len(tail):
            fields = _END.unpack_from(tail, at)
            if tail_at + at + _END.size + fields[-1] == file_bytes:
                return tail_at + at, fields
    raise cut_short(archive)
