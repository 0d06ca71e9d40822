"""A compressed tar is unpacked once, as one file of our own name, and watched while it grows."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol

import zstandard

from engine.sources.indexed import cut_short, damaged
from engine.sources.magic import is_tar
from engine.sources.tree import OnProgress, SourceStopped, StopWish
from wire.errors import ArchiveInvalid, DiskFull

_BLOCK_BYTES: Final = 2**20
_ZEROS: Final = bytes(_BLOCK_BYTES)
_ROOM_ASKED_EVERY_BYTES: Final = 64 * 2**20
_MAX_RATIO: Final = 100
"""Pictures hardly shrink, and drawings as BMP by a factor of ten or twenty; zeros shrink a thousandfold."""
_UNASKED_BYTES: Final = 2**30
"""So much may come out of any archive, however small: it fits everywhere and is there in seconds."""
_RESERVE_BYTES: Final = 256 * 2**20
"""Left on the disk for events and checkpoints of others."""
_MAX_WINDOW_BYTES: Final = 128 * 2**20
"""Memory that zstd may ask for: what ``zstd -19`` and ``--long`` need."""


class _Reader(Protocol):
    def read(self, n_bytes: int, /) -> bytes: ...


def unpacked(
    file: BinaryIO,
    kind: Literal["gzip", "zstd"],
    archive: str,
    *,
    scratch_dir: Path,
    on_progress: OnProgress,
    stop: StopWish,
) -> BinaryIO:
    """The tar inside, as a file without a name that vanishes when it is closed.

    Raises:
        ArchiveInvalid: it is cut short, damaged, no tar, or unpacks to more than it may.
        DiskFull: there is no room for it; the message says how much is missing.
        SourceStopped: the stop was asked for.
    """
    spool: BinaryIO = tempfile.TemporaryFile(dir=scratch_dir, buffering=0)  # noqa: SIM115 - returned
    try:
        with _reader(file, kind) as reader, _named(archive):
            _Spooling(file, spool, archive, scratch_dir).run(reader, on_progress, stop)
    except BaseException:
        spool.close()
        raise
    return spool


def demand_no_bomb(unpacked_bytes: int, packed_bytes: int, archive: str) -> None:
    """Refuse what grows far more than pictures do.

    Raises:
        ArchiveInvalid: it does.
    """
    if unpacked_bytes > max(_UNASKED_BYTES, _MAX_RATIO * packed_bytes):
        raise ArchiveInvalid(
            f"{archive} has {_size(packed_bytes)} and would unpack to more than {_size(unpacked_bytes - 1)},"
            f" over {_MAX_RATIO} times as much.",
            hint="Pictures do not shrink like that. Pack the pictures alone.",
        )


class _Spooling:
    """One archive on its way to the scratch folder."""

    def __init__(self, packed: BinaryIO, spool: BinaryIO, archive: str, scratch_dir: Path) -> None:
        self._packed = packed
        self._spool = spool
        self._archive = archive
        self._scratch_dir = scratch_dir
        self._packed_bytes = os.fstat(packed.fileno()).st_size
        self._n_bytes = 0

    def run(self, reader: _Reader, on_progress: OnProgress, stop: StopWish) -> None:
        room_asked_at = 0
        while block := reader.read(_BLOCK_BYTES):
            if stop.asked:
                raise SourceStopped
            if self._n_bytes == 0 and not is_tar(block):
                raise ArchiveInvalid(
                    f"{self._archive} is compressed, but holds no tar archive.",
                    hint="Pack the folder of your images as zip, tar, tar.gz or tar.zst.",
                )
            if self._n_bytes >= room_asked_at:
                self._demand_room()
                room_asked_at = self._n_bytes + _ROOM_ASKED_EVERY_BYTES
            self._write(block)
            demand_no_bomb(self._n_bytes, self._packed_bytes, self._archive)
            on_progress(min(self._packed.tell(), self._packed_bytes), self._packed_bytes)
        self._spool.truncate(self._n_bytes)

    def _write(self, block: bytes) -> None:
        try:
            # What is zero stays a hole: a bomb of zeros costs no disk, and no time to write.
            if block == _ZEROS[: len(block)]:
                self._spool.seek(len(block), os.SEEK_CUR)
            else:
                left = memoryview(block)
                while left:
                    left = left[self._spool.write(left) :]
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise self._disk_full(free_bytes=0) from error
        self._n_bytes += len(block)

    def _demand_room(self) -> None:
        free_bytes = shutil.disk_usage(self._scratch_dir).free - _RESERVE_BYTES
        if free_bytes < _ROOM_ASKED_EVERY_BYTES:
            raise self._disk_full(free_bytes=free_bytes)

    def _disk_full(self, *, free_bytes: int) -> DiskFull:
        """How much is missing is reckoned from how much has grown out of what was read so far."""
        read_bytes = max(1, self._packed.tell())
        expected_bytes = max(self._n_bytes, self._packed_bytes, self._n_bytes * self._packed_bytes // read_bytes)
        missing_bytes = max(expected_bytes - self._n_bytes, _ROOM_ASKED_EVERY_BYTES) - free_bytes
        return DiskFull(
            f"The disk has too little room to unpack {self._archive}: about {_size(missing_bytes)}"
            f" ({missing_bytes:,} bytes) are missing.",
            hint="Free some space, then start the import again: the upload is kept. A zip needs no room to unpack.",
        )


@contextmanager
def _reader(file: BinaryIO, kind: Literal["gzip", "zstd"]) -> Iterator[_Reader]:
    if kind == "gzip":
        with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
            yield unzipped
        return
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    with decompressor.stream_reader(file, read_across_frames=True, closefd=False) as stream:
        yield stream


@contextmanager
def _named(archive: str) -> Iterator[None]:
    """Each library has its own words for a damaged stream."""
    try:
        yield
    except EOFError:
        raise cut_short(archive) from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise damaged(archive, f"it cannot be unpacked ({error})") from None
    except zstandard.ZstdError as error:
        if "memory" in str(error):
            raise ArchiveInvalid(
                f"{archive} needs more than {_size(_MAX_WINDOW_BYTES)} of memory to unpack.",
                hint="Pack it again with zstd --long=27 or less.",
            ) from None
        raise damaged(archive, f"it cannot be unpacked ({error})") from None


def _size(n_bytes: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.1f} {unit}"
    return f"{n_bytes} bytes"
