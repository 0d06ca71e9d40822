"""What zip and tar have in common once their headers are read: an open file and a place for each name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Self

from engine.sources.members import Listing
from engine.sources.tree import MAX_MEMBERS, Listed, MemberUnreadable, Stray
from wire.errors import ArchiveInvalid

SPLIT_HINT = "Split it into several archives, or have its folder put on the server and import that."


class IndexedTree:
    """A tree whose members are found by number; numbers index compact arrays, for there may be a million of them."""

    licence = ""

    def __init__(self, file: BinaryIO, listing: Listing) -> None:
        self._file = file
        self._index_of = listing.index_of
        self._names = listing.names()
        self._strays = listing.strays()
        self._empty_folders = listing.empty_folders()

    def names(self) -> Sequence[str]:
        return self._names

    def strays(self) -> Sequence[Stray]:
        return self._strays

    def empty_folders(self) -> Sequence[str]:
        return self._empty_folders

    def read(self, name: str) -> bytes:
        index = self._index_of.get(name)
        if index is None:
            raise MemberUnreadable("there is no such file")
        try:
            return self._read(index, name)
        except OSError as error:
            raise MemberUnreadable(f"the file cannot be read: {error.strerror or error}") from None

    def listed(self) -> Iterator[Listed] | None:
        return None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, index: int, name: str) -> bytes:
        raise NotImplementedError


def demand_few(n_members: int, archive: str) -> None:
    """Refuse an archive of more members than are indexed.

    Raises:
        ArchiveInvalid: there are more.
    """
    if n_members > MAX_MEMBERS:
        raise ArchiveInvalid(f"{archive} holds more than {MAX_MEMBERS:,} files.", hint=SPLIT_HINT)


def cut_short(archive: str) -> ArchiveInvalid:
    return ArchiveInvalid(
        f"{archive} is cut short: its end is missing.", hint="Upload it again; if that does not help, pack it again."
    )


def damaged(archive: str, where: str) -> ArchiveInvalid:
    return ArchiveInvalid(
        f"{archive} is damaged: {where}.", hint="Upload it again; if that does not help, pack it again."
    )
