"""Writing a dataset: images stream to disk one by one, rows are completed at the end, the manifest comes last.

The folder becomes a dataset by its manifest; before that it is rubbish which any later attempt may remove.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import lmdb

from engine.store.reader import image_key
from wire.errors import DiskFull
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest, SizeRange, SplitName

_COMMIT_BYTES: Final = 16 * 2**20
_COMMIT_ROWS: Final = 2000
_FIRST_MAP_BYTES: Final = 64 * 2**20
_SCHEMA: Final = """
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    split TEXT CHECK (split IN ('train', 'val', 'test')),
    label INTEGER NOT NULL CHECK (label >= 0),
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    sha256 TEXT NOT NULL
);
PRAGMA user_version = 1;
"""
_INDEXES: Final = """
CREATE INDEX samples_by_split ON samples (split, label, id);
CREATE INDEX samples_by_label ON samples (label, id);
"""


@dataclass(frozen=True, slots=True)
class NewSample:
    name: str
    split: SplitName | None
    """None where the source gives no split; one must be drawn before the end."""
    label: int
    width: int
    height: int
    data: bytes


class DatasetWriter:
    """Fills an empty folder. Ids count from 1 in the order of ``add``.

    At most ``_COMMIT_BYTES`` of images wait in memory. Nothing is durable before ``finish``: the folder is thrown away
    after a crash, so a sync for each commit would only cost time.

    Raises:
        DiskFull: from any method.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self._dir = DatasetDir(path)
        self.n_samples = 0
        self.image_bytes = 0
        self._waiting: list[tuple[bytes, bytes]] = []
        self._waiting_bytes = 0
        self._rows = sqlite3.connect(self._dir.samples_path, isolation_level=None)
        self._rows.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        self._rows.execute("BEGIN")
        self._images = lmdb.open(
            str(self._dir.images_path), subdir=False, lock=False, sync=False, map_size=_FIRST_MAP_BYTES
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows.close()
        self._images.close()

    def add(self, sample: NewSample) -> int:
        """Take one image; returns its id."""
        self.n_samples += 1
        self.image_bytes += len(sample.data)
        digest = hashlib.sha256(sample.data).hexdigest()
        row = (self.n_samples, sample.name, sample.split, sample.label, sample.width, sample.height, digest)
        with _disk_full_named(self._dir.path):
            self._rows.execute("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._waiting.append((image_key(self.n_samples), sample.data))
        self._waiting_bytes += len(sample.data)
        if self._waiting_bytes >= _COMMIT_BYTES or len(self._waiting) >= _COMMIT_ROWS:
            self._commit()
        return self.n_samples

    def members(self, label: int, *, split: SplitName | None) -> Iterator[tuple[int, str]]:
        """Ids and names of one class in one split (None: not yet drawn), in the order of ids."""
        yield from self._rows.execute(
            "SELECT id, name FROM samples WHERE label = ? AND split IS ? ORDER BY id", (label, split)
        )

    def splits_given(self) -> set[SplitName]:
        return {row[0] for row in self._rows.execute("SELECT DISTINCT split FROM samples WHERE split NOT NULL")}

    def assign(self, split: SplitName, ids: Iterable[int]) -> None:
        self._rows.executemany("UPDATE samples SET split = ? WHERE id = ?", ((split, id_) for id_ in ids))

    def relabel(self, label_of: Mapping[int, int]) -> None:
        """Give every class its final number. Every label in use must be named."""
        self._rows.execute("CREATE TEMP TABLE relabelled (was INTEGER PRIMARY KEY, label INTEGER NOT NULL)")
        self._rows.executemany("INSERT INTO relabelled VALUES (?, ?)", label_of.items())
        self._rows.execute("UPDATE samples SET label = (SELECT label FROM relabelled WHERE was = samples.label)")

    def tally(self) -> Iterator[tuple[SplitName, int, int]]:
        """How many images there are of each split and label that has any."""
        yield from self._rows.execute("SELECT split, label, count(*) FROM samples GROUP BY split, label")

    def ids(self, split: SplitName) -> Iterator[int]:
        for (id_,) in self._rows.execute("SELECT id FROM samples WHERE split = ? ORDER BY id", (split,)):
            yield id_

    def samples_sha256(self) -> str:
        """One value for the whole dataset, whatever the names of its files."""
        digest = hashlib.sha256()
        for row in self._rows.execute("SELECT id, split, label, sha256 FROM samples ORDER BY id"):
            digest.update("\t".join(map(str, row)).encode() + b"\n")
        return digest.hexdigest()

    def size_range(self, side: Literal["width", "height"]) -> SizeRange:
        smallest, largest = self._rows.execute(f"SELECT min({side}), max({side}) FROM samples").fetchone()  # noqa: S608
        (median,) = self._rows.execute(
            f"SELECT {side} FROM samples ORDER BY {side} LIMIT 1 OFFSET ?",  # noqa: S608 - a literal of two
            ((self.n_samples - 1) // 2,),
        ).fetchone()
        return SizeRange(min=smallest, median=median, max=largest)

    def finish(self, manifest: DatasetManifest) -> None:
        """Complete the folder and make all of it durable; the writer takes nothing more."""
        self._commit()
        with _disk_full_named(self._dir.path):
            self._rows.execute("COMMIT")
            self._rows.executescript(_INDEXES + "ANALYZE;")
            self._rows.close()
            self._images.sync(True)  # noqa: FBT003 - lmdb takes no keyword here
            self._images.close()
            self._dir.manifest_path.write_text(manifest.model_dump_json(indent=1))
            for path in (self._dir.samples_path, self._dir.images_path, self._dir.manifest_path, self._dir.path):
                fsync_path(path)

    def _commit(self) -> None:
        """Store the waiting images; the map doubles until they fit."""
        with _disk_full_named(self._dir.path):
            while self._waiting:
                try:
                    with self._images.begin(write=True) as transaction:
                        for key, data in self._waiting:
                            transaction.put(key, data, append=True)
                    self._waiting.clear()
                except lmdb.MapFullError:
                    self._images.set_mapsize(2 * self._images.info()["map_size"])
            self._waiting_bytes = 0


def fsync_path(path: Path) -> None:
    """Make a file's content, or a folder's list of names, survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _disk_full_named(path: Path) -> Iterator[None]:
    """SQLite and LMDB each have their own word for a full disk."""
    try:
        yield
    except (sqlite3.OperationalError, lmdb.DiskError) as error:
        if isinstance(error, sqlite3.OperationalError) and "full" not in str(error):
            raise
        raise DiskFull(
            f"The disk is full while writing the dataset to {path}.", hint="Free some space, then import again."
        ) from error
