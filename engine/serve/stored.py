"""What lies below the storage root and may be asked for: paths that stay below it, and datasets kept open."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from engine.store.reader import DatasetReader
from wire.errors import DatasetMissing, NotFound
from wire.layout import DatasetDir

N_OPEN_DATASETS = 8
UNUSED_FOR_S = 60.0
"""A dataset that nobody asked for in this time is closed: its disk space is free once it is deleted."""

_Key: TypeAlias = tuple[Path, int, int]


def below(root: Path, relative: str) -> Path:
    """The place that ``relative`` means, links followed.

    Raises:
        NotFound: it does not lie below ``root``.
    """
    try:
        path = (root / relative).resolve()
    except (OSError, ValueError, RuntimeError):  # no path at all: a zero byte, a ring of links
        path = root
    if path == root or not path.is_relative_to(root):
        raise NotFound(f"{relative!r} is not below the storage root.", hint="Choose a dataset or run of this server.")
    return path


@dataclass(slots=True)
class _Open:
    reader: DatasetReader
    n_users: int
    used_at: float


class Datasets:
    """Open readers, the least recently used closed first and none while somebody reads from it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._lock = threading.Lock()
        self._open: OrderedDict[_Key, _Open] = OrderedDict()

    @contextmanager
    def reader(self, relative: str) -> Iterator[DatasetReader]:
        """The dataset in that folder, until the block ends.

        Raises:
            NotFound: the folder is not below the root.
            DatasetMissing, DatasetInvalid: there is none, or it is damaged.
        """
        path = below(self._root, relative)
        key = _key(path)
        with self._lock:
            entry = self._open.get(key)
            if entry is None:
                self._close(other for other, held in self._open.items() if other[0] == path and not held.n_users)
                entry = self._open[key] = _Open(DatasetReader(path), 0, 0.0)
            entry.n_users += 1
            self._open.move_to_end(key)
            self._close_surplus()
        try:
            yield entry.reader
        finally:
            with self._lock:
                entry.n_users -= 1
                entry.used_at = time.monotonic()
                self._close_surplus()

    def close_unused(self, *, unused_for_s: float = UNUSED_FOR_S) -> None:
        now_s = time.monotonic()
        with self._lock:
            self._close(
                key for key, held in self._open.items() if not held.n_users and now_s - held.used_at >= unused_for_s
            )

    @property
    def n_open(self) -> int:
        return len(self._open)

    def _close_surplus(self) -> None:
        idle = [key for key, held in self._open.items() if not held.n_users]
        self._close(idle[: max(0, len(self._open) - N_OPEN_DATASETS)])

    def _close(self, keys: Iterable[_Key]) -> None:
        for key in list(keys):
            self._open.pop(key).reader.close()


def _key(path: Path) -> _Key:
    """Which folder, and which one it is: another dataset may come to lie where one was."""
    try:
        status = DatasetDir(path).manifest_path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetMissing(
            f"There is no dataset at {path}.", hint="It may have been deleted; import the images again."
        ) from None
    return path, status.st_ino, status.st_mtime_ns
