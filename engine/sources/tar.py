"""A tar as a tree: headers are read once, members where they lie.

``tarfile`` keeps a kilobyte for each member and reads long names and pax records of any size into memory; of it only
the parser of one header block is used.
"""

from __future__ import annotations

import os
import re
import tarfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from engine.sources.files import read_at
from engine.sources.indexed import SPLIT_HINT, IndexedTree, cut_short, damaged, demand_few
from engine.sources.large import LARGE_BYTES, demand_image, turn
from engine.sources.magic import HEAD_BYTES
from engine.sources.members import LINK, NOT_A_FILE, Listing
from engine.sources.tree import MAX_MEMBERS, MemberUnreadable, SourceStopped, StopWish
from wire.errors import ArchiveInvalid

_MAX_RECORD_BYTES: Final = 2**20
"""Of a long name or of pax records; usual ones have some hundred bytes."""
_MAX_HEADERS: Final = 4 * MAX_MEMBERS
_ASKED_EVERY: Final = 1000
_BLOCK_BYTES: Final = tarfile.BLOCKSIZE
_PAX_RECORD: Final = re.compile(rb"(\d{1,9}) ([^=]+)=")

_PAX: Final = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_TELLING: Final = (*_PAX, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_SPARSE: Final = "it is stored with holes (sparse); pack it again without that"
_REFUSED: Final = {tarfile.LNKTYPE: "it is a hard link", tarfile.SYMTYPE: LINK, tarfile.GNUTYPE_SPARSE: _SPARSE}
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_DATALESS: Final = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
)  # fmt: skip


class TarTree(IndexedTree):
    def __init__(self, file: BinaryIO, archive: str, *, stop: StopWish) -> None:
        self._offsets = array("Q")
        self._size_bytes = array("Q")
        listing = Listing()
        for n_headers, member in enumerate(_Members(file, archive), start=1):
            if n_headers % _ASKED_EVERY == 0 and stop.asked:
                raise SourceStopped
            demand_few(listing.n_members, archive)
            if member.is_folder:
                listing.add_folder(member.name)
            elif listing.add_file(member.name, size_bytes=member.size_bytes, refusal=member.refusal):
                self._offsets.append(member.offset)
                self._size_bytes.append(member.size_bytes)
        super().__init__(file, listing)

    def _read(self, index: int, name: str) -> bytes:
        offset, size_bytes = self._offsets[index], self._size_bytes[index]
        with turn(size_bytes):
            if size_bytes > LARGE_BYTES:
                demand_image(name, read_at(self._file.fileno(), offset, HEAD_BYTES))
            data = read_at(self._file.fileno(), offset, size_bytes)
        if len(data) < size_bytes:
            raise MemberUnreadable("the archive ends in the middle of it")
        return data


@dataclass(slots=True)
class _Member:
    name: str
    offset: int
    size_bytes: int
    refusal: str | None
    is_folder: bool


@dataclass(slots=True)
class _Told:
    """What headers before a member say about it."""

    name: str | None = None
    size_bytes: int | None = None
    is_sparse: bool = False


class _Members:
    """Iterates over the members of a tar, each with what the headers before it told."""

    def __init__(self, file: BinaryIO, archive: str) -> None:
        self._fd = file.fileno()
        self._file_bytes = os.fstat(self._fd).st_size
        self._archive = archive

    def __iter__(self) -> Iterator[_Member]:
        at = 0
        told = _Told()
        for _ in range(_MAX_HEADERS):
            header = self._header(at)
            if header is None:
                return
            at += _BLOCK_BYTES
            if header.type == tarfile.GNUTYPE_SPARSE:
                at = self._after_map(at)
            n_bytes = header.size if told.size_bytes is None or header.type in _TELLING else told.size_bytes
            if header.type in _DATALESS:
                n_bytes = 0
            if at + n_bytes > self._file_bytes:
                raise cut_short(self._archive)
            if header.type in _TELLING:
                self._hear(told, header, at)
            else:
                yield _member(header, told, at, n_bytes)
                told = _Told()
            at += -(-n_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
        raise ArchiveInvalid(f"{self._archive} holds more than {_MAX_HEADERS:,} headers.", hint=SPLIT_HINT)

    def _header(self, at: int) -> tarfile.TarInfo | None:
        """None at the end, which is a block of zeros; a file that ends before it is cut."""
        block = os.pread(self._fd, _BLOCK_BYTES, at)
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            return None
        except tarfile.HeaderError:
            if len(block) < _BLOCK_BYTES:
                raise cut_short(self._archive) from None
            raise damaged(self._archive, f"there is no header at byte {at:,}") from None
        if header.size < 0:
            raise damaged(self._archive, f"the header at byte {at:,} states a size below zero")
        return header

    def _after_map(self, at: int) -> int:
        """Where the data of an old GNU sparse member begins: after the blocks that continue its map."""
        block, more_at = os.pread(self._fd, _BLOCK_BYTES, at - _BLOCK_BYTES), 482
        while len(block) == _BLOCK_BYTES and block[more_at]:
            block, more_at = os.pread(self._fd, _BLOCK_BYTES, at), 504
            at += _BLOCK_BYTES
        return at

    def _hear(self, told: _Told, header: tarfile.TarInfo, at: int) -> None:
        if header.type not in (tarfile.GNUTYPE_LONGNAME, *_PAX):
            return
        if header.size > _MAX_RECORD_BYTES:
            raise damaged(self._archive, f"a name or record has {header.size:,} bytes, more than is read")
        record = read_at(self._fd, at, header.size)
        if header.type == tarfile.GNUTYPE_LONGNAME:
            told.name = _text(record.partition(b"\0")[0])
            return
        for key, value in self._pax_records(record):
            if key == b"path":
                told.name = _text(value)
            elif key == b"size" and re.fullmatch(rb"\d{1,19}", value):
                told.size_bytes = int(value)
            elif key.startswith(b"GNU.sparse."):
                told.is_sparse = True

    def _pax_records(self, records: bytes) -> Iterator[tuple[bytes, bytes]]:
        at = 0
        while at < len(records):
            found = _PAX_RECORD.match(records, at)
            end = at + int(found[1]) if found else 0
            if found is None or end <= found.end() or records[end - 1 : end] != b"\n":
                raise damaged(self._archive, "a pax record cannot be read")
            yield found[2], records[found.end() : end - 1]
            at = end


def _member(header: tarfile.TarInfo, told: _Told, offset: int, n_bytes: int) -> _Member:
    name = header.name if told.name is None else told.name
    refusal = _REFUSED.get(header.type) or (None if header.type in _FILES else NOT_A_FILE)
    return _Member(
        name=name,
        offset=offset,
        size_bytes=n_bytes,
        refusal=_SPARSE if told.is_sparse else refusal,
        is_folder=header.type == tarfile.DIRTYPE or (header.type in _FILES and name.endswith("/")),
    )


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
