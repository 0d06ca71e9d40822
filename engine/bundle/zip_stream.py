"""A ZIP archive that is known before it is read: stored members of known sizes and hashes, so every byte has its place.

The same members give the same bytes, whenever and wherever. Any range of it can be sent, so that a broken download goes
on where it stopped. Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (ZIP64).
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wire.errors import NotFound

CHUNK_BYTES: Final = 2**20
_MARK_32: Final = 0xFFFFFFFF
"""Stands where the number itself is found in the fields of ZIP64."""
_MARK_16: Final = 0xFFFF
_MARK_FROM: Final = _MARK_32
"""Sizes and places from here on need ZIP64."""

_LOCAL: Final = struct.Struct("<4sHHHHHLLLHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHLLLHHHHHLL")
_END_64: Final = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR_64: Final = struct.Struct("<4sLQL")
_END: Final = struct.Struct("<4sHHHHLLH")

_FIRST_OF_1980: Final = 1 << 5 | 1
"""The earliest date that the format has: that of each member, for what is the same shall look the same."""
_MADE_ON_UNIX: Final = 3 << 8
_PLAIN_FILE: Final = 0o100644 << 16
_PLAIN, _ZIP64 = 20, 45
"""Versions of the format that a reader has to know."""


class MemberChanged(OSError):
    """A file is not any more what was announced; the stream breaks off, so that nobody takes it for whole."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file of the archive. ``source`` is its content, or where that lies."""

    path: str
    n_bytes: int
    crc32: int
    sha256: str
    source: bytes | Path

    @classmethod
    def of(cls, path: str, content: bytes | str) -> Member:
        data = content.encode() if isinstance(content, str) else content
        return cls(path, len(data), zlib.crc32(data), hashlib.sha256(data).hexdigest(), data)

    def check(self) -> None:
        """Whether it can be sent, as far as that is seen without reading it.

        Raises:
            NotFound: its file is gone, or of another size.
        """
        if isinstance(self.source, bytes):
            return
        hint = "Delete the export and make it again."
        try:
            found = self.source.stat()
        except OSError:
            raise NotFound(f"The file of {self.path} is gone from the server's disk.", hint=hint) from None
        size = found.st_size
        if not stat.S_ISREG(found.st_mode):  # of a pipe the reading would not end
            raise NotFound(f"The file of {self.path} is no plain file on the server's disk.", hint=hint)
        if size != self.n_bytes:
            text = f"The file of {self.path} has {size:,} bytes on the server's disk and had {self.n_bytes:,}."
            raise NotFound(text, hint=hint)

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Bytes ``start`` to ``stop``; of a whole file the last are given only if the hash is the announced one.

        Raises:
            MemberChanged: the file has another size, or another content.
        """
        if isinstance(self.source, bytes):
            yield self.source[start:stop]
            return
        is_whole = (start, stop) == (0, self.n_bytes)
        sha256 = hashlib.sha256()
        with self.source.open("rb") as file:
            if os.fstat(file.fileno()).st_size != self.n_bytes:
                raise MemberChanged(f"{self.source} is not {self.n_bytes} bytes long any more")
            file.seek(start)
            while start < stop:
                chunk = file.read(min(CHUNK_BYTES, stop - start))
                if not chunk:
                    raise MemberChanged(f"{self.source} became shorter while it was sent")
                start += len(chunk)
                if is_whole:
                    sha256.update(chunk)
                    if start == stop and sha256.hexdigest() != self.sha256:
                        raise MemberChanged(f"{self.source} does not hold any more what was measured")
                yield chunk


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of the archive that lie one behind the other, from ``start`` on."""

    start: int
    content: bytes | Member

    @property
    def size(self) -> int:
        return self.content.n_bytes if isinstance(self.content, Member) else len(self.content)

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        if isinstance(self.content, Member):
            yield from self.content.read(start, stop)
        else:
            yield self.content[start:stop]


class ZipStream:
    """Members in the order of their paths, and the directory that stands at the end."""

    def __init__(self, members: Sequence[Member]) -> None:
        """Raises ``ValueError`` for a path that is there twice, leads out of the archive, or is not plain ASCII."""
        self.members = tuple(sorted(members, key=lambda member: member.path))
        _check_paths([member.path for member in self.members])
        self._pieces: list[_Piece] = []
        self.size_bytes = 0
        offsets = []
        for member in self.members:
            offsets.append(self.size_bytes)
            self._append(_local_header(member))
            self._append(member)
        self._append(_directory(self.members, offsets, self.size_bytes))

    def _append(self, content: bytes | Member) -> None:
        piece = _Piece(self.size_bytes, content)
        self._pieces.append(piece)
        self.size_bytes += piece.size

    def check(self) -> None:
        """Raises ``NotFound`` where a file is gone, or of another size. Cost: one stat a file."""
        for member in self.members:
            member.check()

    def stream(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The archive, or its bytes from ``start`` up to ``stop``, about ``CHUNK_BYTES`` at a time.

        Raises:
            MemberChanged: a file was changed meanwhile.
        """
        stop = self.size_bytes if stop is None else stop
        for piece in self._pieces:
            first, last = max(start - piece.start, 0), min(stop - piece.start, piece.size)
            if first < last:
                yield from piece.read(first, last)


def _check_paths(paths: Sequence[str]) -> None:
    for path in paths:
        parts = path.split("/")
        if not path.isascii() or not path.isprintable() or "\\" in path or {"", ".", ".."} & set(parts):
            raise ValueError(f"{path!r} is no path inside an archive")
    if len(set(paths)) < len(paths):
        raise ValueError("two members have the same path")


def _local_header(member: Member) -> bytes:
    name = member.path.encode("ascii")
    is_large = member.n_bytes >= _MARK_FROM
    extra = struct.pack("<HHQQ", 1, 16, member.n_bytes, member.n_bytes) if is_large else b""
    size = _MARK_32 if is_large else member.n_bytes
    version = _ZIP64 if is_large else _PLAIN
    fixed = (b"PK\x03\x04", version, 0, 0, 0, _FIRST_OF_1980, member.crc32, size, size, len(name), len(extra))
    return _LOCAL.pack(*fixed) + name + extra


def _directory_entry(member: Member, offset: int) -> bytes:
    name = member.path.encode("ascii")
    is_large, is_far = member.n_bytes >= _MARK_FROM, offset >= _MARK_FROM
    values = [*[member.n_bytes] * 2 * is_large, *[offset] * is_far]
    extra = struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""
    size = _MARK_32 if is_large else member.n_bytes
    version = _ZIP64 if values else _PLAIN
    known = (b"PK\x01\x02", _MADE_ON_UNIX | version, version, 0, 0, 0, _FIRST_OF_1980, member.crc32, size, size)
    rest = (len(name), len(extra), 0, 0, 0, _PLAIN_FILE, _MARK_32 if is_far else offset)
    return _CENTRAL.pack(*known, *rest) + name + extra


def _directory(members: Sequence[Member], offsets: Sequence[int], start: int) -> bytes:
    entries = b"".join(map(_directory_entry, members, offsets))
    n, end = len(members), start + len(entries)
    beyond = b""
    if n >= _MARK_16 or start >= _MARK_FROM or len(entries) >= _MARK_FROM:
        unread = _END_64.size - 12
        beyond = _END_64.pack(
            b"PK\x06\x06", unread, _MADE_ON_UNIX | _ZIP64, _ZIP64, 0, 0, n, n, len(entries), start
        ) + _LOCATOR_64.pack(b"PK\x06\x07", 0, end, 1)
    counted = min(n, _MARK_16)
    n_bytes = _MARK_32 if len(entries) >= _MARK_FROM else len(entries)
    place = _MARK_32 if start >= _MARK_FROM else start
    return entries + beyond + _END.pack(b"PK\x05\x06", 0, 0, counted, counted, n_bytes, place, 0)
