"""The decoded cache: one split at one size as raw pixels in a file that is mapped into memory.

Decoding JPEG photographs feeds a small network far too slowly, so it is done once for each choice of size, resize mode
and colour. Folders live in a host-local cache directory, which anyone may empty at any time:

    <cache_dir>/decoded/<key>/{images.npy, labels.npy, ids.npy, about.json}      complete, or absent
    <cache_dir>/decoded/<key>.part/                                             being written by the holder of the lock
    <cache_dir>/decoded/<key>.lock                                              flock: one builder, one remover
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.ahead import N_DECODE_THREADS, map_ahead
from engine.data.decode import ImageUnreadable, decode
from engine.data.resize import resize as to_square
from engine.store.reader import DatasetReader, Sample
from wire.errors import DatasetInvalid, DiskFull, SpecInvalid
from wire.manifests import SplitName
from wire.specs import Colour, Resize

_VERSION: Final = 1
"""Part of the key; raised when decoding or resizing changes."""
_GIB: Final = 2**30
_DEFAULT_MAX_GIB: Final = 50.0
_LOCK_POLL_S: Final = 0.2
_SAY_WAITING_EVERY_S: Final = 30.0


class StopWish(Protocol):
    @property
    def asked(self) -> bool: ...


class DecodingStopped(Exception):
    """The stop was asked for while images were decoded; what was made so far is gone."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One split as the network will see it, before augmentation and normalisation; in the order of ids."""

    images_NHWC: NDArray[np.uint8]
    labels_N: NDArray[np.int64]
    ids_N: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Request:
    samples_sha256: str
    split: SplitName
    image_px: int
    resize: Resize
    colour: Colour
    n_images: int
    version: int = _VERSION

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]

    @property
    def shape_NHWC(self) -> tuple[int, int, int, int]:  # noqa: N802  the suffix names the axes
        return (self.n_images, self.image_px, self.image_px, 1 if self.colour == "grey" else 3)

    @property
    def image_bytes(self) -> int:
        _, height, width, channels = self.shape_NHWC
        return height * width * channels


def decoded(  # noqa: PLR0913 - each names one choice of the training form
    reader: DatasetReader,
    split: SplitName,
    *,
    image_px: int,
    resize: Resize,
    colour: Colour,
    cache_dir: Path,
    on_progress: Callable[[int, int], None],
    stop: StopWish,
) -> Decoded:
    """All images of a split at one size; from the cache where it has them, else made now.

    Of two processes that ask for the same, one builds and the other waits for it. ``on_progress`` is called with done
    and total after each image that is made, now and then with 0 while it waits for another process, and not at all on a
    hit; ``stop`` is looked at between two images and while waiting.

    Raises:
        DecodingStopped: ``stop`` was asked for before all was there.
        DiskFull: the cache directory has not enough room, even with older entries removed.
        DatasetInvalid: an image cannot be read.
    """
    n_images = reader.count(split)
    request = _Request(reader.manifest.samples_sha256, split, image_px, resize, colour, n_images)
    if not n_images:  # an empty file cannot be mapped
        empty_N = np.zeros(0, np.int64)
        return Decoded(np.zeros(request.shape_NHWC, np.uint8), empty_N, empty_N)
    folder = cache_dir / "decoded" / request.key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, stop, partial(on_progress, 0, n_images)):
        found = _open(folder, request)
        if found is None:
            _make_room(folder.parent, n_images * request.image_bytes, keep=folder)
            _build(reader, request, folder, on_progress, stop)
            found = _open(folder, request)
            assert found is not None, f"{folder} was built and cannot be opened"  # noqa: S101
        os.utime(folder)  # the time of last use, for eviction
        return found


def _open(folder: Path, request: _Request) -> Decoded | None:
    """The entry, if it is there and whole."""
    try:
        images_NHWC = np.load(folder / "images.npy", mmap_mode="r")
        labels_N = np.load(folder / "labels.npy")
        ids_N = np.load(folder / "ids.npy")
    except (OSError, ValueError, EOFError):
        return None
    if images_NHWC.shape != request.shape_NHWC or not len(labels_N) == len(ids_N) == request.n_images:
        return None
    return Decoded(images_NHWC, labels_N, ids_N)


def _build(
    reader: DatasetReader, request: _Request, folder: Path, on_progress: Callable[[int, int], None], stop: StopWish
) -> None:
    """Write the entry beside its place, then move it there.

    Pixels are appended, never mapped while writing: a full disk is then an error that can be told, and not a signal
    that kills the process.
    """
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    samples = reader.samples(request.split)
    try:
        part.mkdir()
        with _full_disk_named(folder, request):
            with (part / "images.npy").open("wb") as file:
                _write_pixels(file, reader, request, samples, on_progress, stop)
            np.save(part / "labels.npy", np.array([sample.label for sample in samples], np.int64))
            np.save(part / "ids.npy", np.array([sample.id for sample in samples], np.int64))
            (part / "about.json").write_text(json.dumps(asdict(request), indent=1))
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_pixels(
    file: IO[bytes],
    reader: DatasetReader,
    request: _Request,
    samples: list[Sample],
    on_progress: Callable[[int, int], None],
    stop: StopWish,
) -> None:
    header = {"descr": "|u1", "fortran_order": False, "shape": request.shape_NHWC}
    np.lib.format.write_array_header_1_0(file, header)
    pixels = map_ahead(
        partial(_pixels, reader, request), samples, n_threads=N_DECODE_THREADS, n_ahead=4 * N_DECODE_THREADS
    )
    with closing(pixels):
        for done, image_HWC in enumerate(pixels, start=1):
            if stop.asked:
                raise DecodingStopped
            file.write(image_HWC.tobytes())
            on_progress(done, request.n_images)
    file.flush()
    os.fsync(file.fileno())


def _pixels(reader: DatasetReader, request: _Request, sample: Sample) -> NDArray[np.uint8]:
    try:
        image = decode(reader.image_bytes(sample.id))
    except ImageUnreadable as error:
        raise DatasetInvalid(
            f"The image {sample.name} of the dataset {reader.manifest.name!r} cannot be read any more: {error}.",
            hint="Import the images again.",
        ) from error
    return to_square(image, request.image_px, request.resize, request.colour)


@contextmanager
def _locked(folder: Path, stop: StopWish, say_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the entry, alone; ``say_waiting`` is called now and then: one that waits long for another does not hang."""
    say_at = time.monotonic() + _SAY_WAITING_EVERY_S
    with folder.with_suffix(".lock").open("a") as lock:
        while not _lock_taken(lock):
            if stop.asked:
                raise DecodingStopped
            if time.monotonic() >= say_at:
                say_at += _SAY_WAITING_EVERY_S
                say_waiting()
            time.sleep(_LOCK_POLL_S)
        yield


def _lock_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_room(entries_dir: Path, needed_bytes: int, *, keep: Path) -> None:
    """Remove the entries that were not used for longest, until the budget and the disk have room for one more.

    The budget (``CACHE_MAX_GIB``) bounds what is kept, not what is needed now: one entry larger than it is still built.
    A process that has an entry mapped goes on reading it; its blocks are freed when the process ends.
    """
    sizes = {path: _folder_bytes(path) for path in entries_dir.iterdir() if path.is_dir() and path != keep}
    total_bytes = sum(sizes.values())
    for path in sorted(sizes, key=lambda path: path.stat().st_mtime):
        free_bytes = shutil.disk_usage(entries_dir).free
        if total_bytes + needed_bytes <= _max_bytes() and needed_bytes <= free_bytes:
            return
        if _removed(path):
            total_bytes -= sizes[path]


def _removed(path: Path) -> bool:
    """Remove one entry, or the remains of a killed builder, unless another process is just opening or building it."""
    with path.with_suffix(".lock").open("a") as lock:
        if not _lock_taken(lock):
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True


def _folder_bytes(path: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in path.iterdir())
    except FileNotFoundError:
        return 0


def _max_bytes() -> int:
    named = os.environ.get("CACHE_MAX_GIB") or str(_DEFAULT_MAX_GIB)
    try:
        return int(float(named) * _GIB)
    except ValueError:
        raise SpecInvalid(
            f"CACHE_MAX_GIB is {named!r}, which is no number.", hint="Set it to a size in GiB, for example 50."
        ) from None


@contextmanager
def _full_disk_named(folder: Path, request: _Request) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        needed_bytes = request.n_images * request.image_bytes
        written_bytes = _folder_bytes(folder.with_suffix(".part"))
        raise DiskFull(
            f"The decoded images do not fit into {folder.parent}: {needed_bytes:,} bytes are needed, "
            f"{max(0, needed_bytes - written_bytes):,} bytes are missing.",
            hint="Free some space there, set CACHE_DIR to a larger disk, or choose a smaller image size.",
        ) from error
