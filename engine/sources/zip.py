"""A zip as a tree: members are read where they lie, each by itself. Nothing is unpacked to disk."""

from __future__ import annotations

import stat
import struct
import zlib
from array import array
from typing import BinaryIO, Final

import numpy as np

from engine.sources.files import read_at
from engine.sources.indexed import IndexedTree, damaged, demand_few
from engine.sources.large import LARGE_BYTES, demand_image, turn
from engine.sources.magic import HEAD_BYTES
from engine.sources.members import LINK, NOT_A_FILE, Listing
from engine.sources.tree import MemberUnreadable, SourceStopped, StopWish
from engine.sources.unpacking import demand_no_bomb
from engine.sources.zip_directory import Directory, Entry, entries, find_directory
from wire.errors import ArchiveInvalid

_LOCAL: Final = struct.Struct("<4s22x2H")
_STORED: Final = 0
_DEFLATED: Final = 8
_PEEKED_BYTES: Final = 64 * 2**10
_ASKED_EVERY: Final = 1000


class ZipTree(IndexedTree):
    """The directory decides; of the headers before the members only the lengths are used."""

    def __init__(self, file: BinaryIO, archive: str, *, stop: StopWish) -> None:
        self._offsets = array("Q")
        self._packed_bytes = array("Q")
        self._size_bytes = array("Q")
        self._crcs = array("I")
        self._methods = array("B")
        listing = Listing()
        directory = find_directory(file, archive)
        self._index(listing, file, directory, archive, stop)
        super().__init__(file, listing)
        file_bytes = directory.offset + directory.n_bytes
        demand_no_bomb(sum(self._size_bytes), file_bytes, archive)

    def _index(self, listing: Listing, file: BinaryIO, directory: Directory, archive: str, stop: StopWish) -> None:
        starts, ends = array("Q"), array("Q")
        n_files = n_encrypted = 0
        for n_entries, entry in enumerate(entries(file, directory, archive), start=1):
            demand_few(n_entries, archive)
            if n_entries % _ASKED_EVERY == 0 and stop.asked:
                raise SourceStopped
            _place(entry, directory, starts, ends, archive)
            if entry.is_folder:
                listing.add_folder(entry.name)
                continue
            n_files += 1
            n_encrypted += entry.is_encrypted
            size_bytes = max(entry.size_bytes, entry.packed_bytes)
            if listing.add_file(entry.name, size_bytes=size_bytes, refusal=_refusal(entry)):
                self._take(entry)
        if n_encrypted and n_encrypted == n_files:
            raise ArchiveInvalid(f"{archive} is encrypted.", hint="Pack the images again without a password.")
        if _overlap(starts, ends):
            raise damaged(archive, "its members lie over one another")

    def _take(self, entry: Entry) -> None:
        self._offsets.append(entry.offset)
        self._packed_bytes.append(entry.packed_bytes)
        self._size_bytes.append(entry.size_bytes)
        self._crcs.append(entry.crc)
        self._methods.append(entry.method)

    def _read(self, index: int, name: str) -> bytes:
        size_bytes = self._size_bytes[index]
        with turn(max(size_bytes, self._packed_bytes[index])):
            data = self._unpack(self._packed(index), index, name)
        if len(data) != size_bytes:
            raise MemberUnreadable(f"it lies about its size: {size_bytes:,} bytes were announced")
        if zlib.crc32(data) != self._crcs[index]:
            raise MemberUnreadable("its checksum does not match: the archive is damaged there")
        return data

    def _packed(self, index: int) -> bytes:
        offset, n_bytes = self._offsets[index], self._packed_bytes[index]
        fixed = read_at(self._file.fileno(), offset, _LOCAL.size)
        if len(fixed) < _LOCAL.size or fixed[:4] != b"PK\x03\x04":
            raise MemberUnreadable("it does not lie where the archive's directory says")
        _, name_bytes, extra_bytes = _LOCAL.unpack(fixed)
        packed = read_at(self._file.fileno(), offset + _LOCAL.size + name_bytes + extra_bytes, n_bytes)
        if len(packed) < n_bytes:
            raise MemberUnreadable("the archive ends in the middle of it")
        return packed

    def _unpack(self, packed: bytes, index: int, name: str) -> bytes:
        """At most one byte more than was announced."""
        size_bytes = self._size_bytes[index]
        is_large = size_bytes > LARGE_BYTES
        if self._methods[index] == _STORED:
            if is_large:
                demand_image(name, packed[:HEAD_BYTES])
            return packed
        try:
            if is_large:
                demand_image(name, _inflated(packed[:_PEEKED_BYTES], HEAD_BYTES))
            return _inflated(packed, size_bytes + 1)
        except zlib.error:
            raise MemberUnreadable("its compressed bytes are damaged") from None


def _inflated(packed: bytes, max_bytes: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, max_bytes)


def _refusal(entry: Entry) -> str | None:
    if stat.S_ISLNK(entry.mode):
        return LINK
    if entry.mode and not stat.S_ISREG(entry.mode):
        return NOT_A_FILE
    if entry.is_encrypted:
        return "it is encrypted; pack it again without a password"
    if entry.method not in (_STORED, _DEFLATED):
        return f"it is compressed with method {entry.method}; pack it again with the usual one (deflate)"
    return None


def _place(entry: Entry, directory: Directory, starts: array[int], ends: array[int], archive: str) -> None:
    """Note where a member begins, and where it ends at the earliest."""
    end = entry.offset + _LOCAL.size + entry.name_bytes + entry.packed_bytes
    if end > directory.offset:
        raise damaged(archive, "a member does not lie inside it")
    starts.append(entry.offset)
    ends.append(end)


def _overlap(starts: array[int], ends: array[int]) -> bool:
    """A small archive whose members share their bytes unpacks to any size."""
    start_N, end_N = np.array(starts, np.uint64), np.array(ends, np.uint64)
    order_N = np.argsort(start_N, kind="stable")
    return bool((end_N[order_N][:-1] > start_N[order_N][1:]).any())
