"""Writing a dataset: images stream to disk one by one, rows are completed at the end, the manifest comes last.

The folder becomes a dataset by its manifest; before that it is rubbish which any later attempt may remove.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

import lmdb

from engine.store.disk import disk_full_named, fsync_path
from engine.store.reader import image_key
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest, SizeRange, SplitName

_COMMIT_BYTES: Final = 16 * 2**20
_COMMIT_ROWS: Final = 2000
_FIRST_MAP_BYTES: Final = 64 * 2**20
_COMPACT_BYTES: Final = 16 * 2**20
"""So much may be left empty by images that were taken out again; above, the file is written anew."""
_SCHEMA: Final = """
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    split TEXT CHECK (split IN ('train', 'val', 'test')),
    label INTEGER NOT NULL CHECK (label >= 0),
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    sha256 TEXT NOT NULL
);
CREATE TEMP TABLE marked (id INTEGER PRIMARY KEY, same_as INTEGER);
CREATE TEMP TABLE entangled (sha256 TEXT PRIMARY KEY) WITHOUT ROWID;
PRAGMA user_version = 2;
"""
_WHILE_CHOOSING: Final = "CREATE INDEX samples_by_sha256 ON samples (sha256, label, split)"
_INDEXES: Final = """
DROP INDEX IF EXISTS samples_by_sha256;
CREATE UNIQUE INDEX samples_by_name ON samples (name);
CREATE INDEX samples_by_split ON samples (split, label, id);
CREATE INDEX samples_by_split_id ON samples (split, id);
CREATE INDEX samples_by_label ON samples (label, id);
ANALYZE;
"""
_FOR_TRAINING: Final = "coalesce(split, 'train') = 'train'"


class NewSample(NamedTuple):
    name: str
    split: SplitName | None
    """None where the source gives no split; one must be drawn before the end."""
    label: int
    width: int
    height: int
    data: bytes
    sha256: str = ""
    """Of ``data``; computed where it is not given."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A sample that a rule names."""

    id: int
    name: str
    label: int
    split: SplitName | None
    same_as: int | None
    """The sample with the same bytes for which it is named."""
    same_as_name: str | None
    same_as_split: SplitName | None


class DatasetWriter:
    """Fills an empty folder. Ids count from 1 in the order of ``add``; those of samples that leave are not used again.

    At most ``_COMMIT_BYTES`` of images wait in memory. Nothing is durable before ``finish``: the folder is thrown away
    after a crash, so a sync for each commit would only cost time.

    Raises:
        DiskFull: from any method.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self._dir = DatasetDir(path)
        self._last_id = 0
        self.n_samples = 0
        """In the dataset now."""
        self.image_bytes = 0
        self._removed_bytes = 0
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
        self.add_many((sample,))
        return self._last_id

    def add_many(self, samples: Sequence[NewSample]) -> None:
        """Take images in this order."""
        rows = []
        for sample in samples:
            self._last_id += 1
            self.image_bytes += len(sample.data)
            digest = sample.sha256 or hashlib.sha256(sample.data).hexdigest()
            rows.append((self._last_id, sample.name, sample.split, sample.label, sample.width, sample.height, digest))
            self._waiting.append((image_key(self._last_id), sample.data))
            self._waiting_bytes += len(sample.data)
        self.n_samples += len(rows)
        with disk_full_named(self._dir.path):
            self._rows.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        if self._waiting_bytes >= _COMMIT_BYTES or len(self._waiting) >= _COMMIT_ROWS:
            self._commit()

    # Choosing: which of the samples leave again.

    def begin_choosing(self) -> None:
        """All images are there; equal bytes can be found from now on."""
        self._commit()
        self._change(_WHILE_CHOOSING)

    def mark_duplicates(self) -> None:
        """All but the first of equal bytes in one class and one given split."""
        self._mark(
            "SELECT id, first FROM (SELECT id, min(id) OVER (PARTITION BY sha256, label, split) AS first FROM samples) "
            "WHERE id <> first"
        )

    def mark_leaks(self) -> None:
        """Training images whose bytes are among those for validation or test, of whatever class."""
        self._mark(
            "SELECT seen.id, min(kept.id) FROM samples kept JOIN samples seen ON seen.sha256 = kept.sha256 "  # noqa: S608 - a constant
            f"WHERE kept.split IN ('val', 'test') AND {_FOR_TRAINING.replace('split', 'seen.split')} GROUP BY seen.id"
        )

    def mark_classes_below(self, n_images: int) -> None:
        """Every image of the classes that have fewer."""
        self._mark(
            "SELECT id, NULL FROM samples "
            "WHERE label IN (SELECT label FROM samples GROUP BY label HAVING count(*) < ?)",
            (n_images,),
        )

    def mark_beyond(self, n_images: int, rank: Callable[[str], bytes]) -> None:
        """All but as many of each class and given split, those whose names rank first."""
        self._rows.create_function("rank_of", 1, rank, deterministic=True)
        self._mark(
            "SELECT id, NULL FROM "
            "(SELECT id, row_number() OVER (PARTITION BY label, split ORDER BY rank_of(name)) AS n FROM samples) "
            "WHERE n > ?",
            (n_images,),
        )

    def marked(self) -> Iterator[Marked]:
        """In the order of ids."""
        rows = self._rows.execute(
            "SELECT m.id, s.name, s.label, s.split, m.same_as, o.name, o.split "
            "FROM marked m JOIN samples s ON s.id = m.id LEFT JOIN samples o ON o.id = m.same_as ORDER BY m.id"
        )
        for row in rows:
            yield Marked(*row)

    def drop_marked(self) -> None:
        """Take the marked samples out of the dataset."""
        for ids in self._batches("SELECT id FROM marked ORDER BY id"):
            self._remove_images(ids)
            self.n_samples -= len(ids)
        self._change("DELETE FROM samples WHERE id IN (SELECT id FROM marked)")
        self.unmark()

    def unmark(self) -> None:
        self._change("DELETE FROM marked")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Names of two images with equal bytes in different classes, one pair for each such picture."""
        yield from self._rows.execute(
            "SELECT min(CASE WHEN label = low THEN name END), min(CASE WHEN label = high THEN name END) FROM samples "
            "JOIN (SELECT sha256 AS digest, min(label) AS low, max(label) AS high FROM samples GROUP BY sha256 "
            "HAVING low <> high) ON sha256 = digest GROUP BY sha256 ORDER BY min(id)"
        )

    # Splits and classes.

    def splits_given(self) -> set[SplitName]:
        return {row[0] for row in self._rows.execute("SELECT DISTINCT split FROM samples WHERE split NOT NULL")}

    def begin_drawing(self) -> None:
        """Find the pictures that must stay in training: with equal bytes in another class, validation or test."""
        self._change(
            "INSERT INTO entangled SELECT sha256 FROM samples GROUP BY sha256 "
            "HAVING min(label) <> max(label) OR max(split IN ('val', 'test'))"
        )

    def drawable(self, label: int) -> Iterator[tuple[int, str, str]]:
        """Id, name and hash of what may be drawn from a class's images for training, in the order of ids."""
        yield from self._rows.execute(
            f"SELECT id, name, sha256 FROM samples WHERE label = ? AND {_FOR_TRAINING} "  # noqa: S608 - a constant
            "AND sha256 NOT IN (SELECT sha256 FROM entangled) ORDER BY id",
            (label,),
        )

    def assign(self, split: SplitName, ids: Iterable[int]) -> None:
        with disk_full_named(self._dir.path):
            self._rows.executemany("UPDATE samples SET split = ? WHERE id = ?", ((split, id_) for id_ in ids))

    def assign_rest_to_train(self) -> None:
        self._change("UPDATE samples SET split = 'train' WHERE split IS NULL")

    def labels(self) -> list[int]:
        """Those in use."""
        return [label for (label,) in self._rows.execute("SELECT DISTINCT label FROM samples ORDER BY label")]

    def relabel(self, label_of: Mapping[int, int]) -> None:
        """Give every class its final number. Every label in use must be named."""
        self._rows.execute("CREATE TEMP TABLE relabelled (was INTEGER PRIMARY KEY, label INTEGER NOT NULL)")
        self._rows.executemany("INSERT INTO relabelled VALUES (?, ?)", label_of.items())
        self._change("UPDATE samples SET label = (SELECT label FROM relabelled WHERE was = samples.label)")

    # Facts for the manifest.

    def tally(self) -> Iterator[tuple[SplitName, int, int]]:
        """How many images there are of each split and label that has any."""
        yield from self._rows.execute("SELECT split, label, count(*) FROM samples GROUP BY split, label")

    def ids(self, split: SplitName | None = None) -> Iterator[int]:
        for (id_,) in self._rows.execute("SELECT id FROM samples WHERE ?1 IS NULL OR split = ?1 ORDER BY id", (split,)):
            yield id_

    def image(self, sample_id: int) -> bytes:
        """The bytes of a sample that is in the dataset."""
        self._commit()
        with self._images.begin() as transaction:
            return bytes(transaction.get(image_key(sample_id), b""))

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

    def finish_rows(self) -> None:
        """Complete ``samples.sqlite``."""
        with disk_full_named(self._dir.path):
            if self._rows.in_transaction:
                self._rows.execute("COMMIT")
                self._rows.executescript(_INDEXES)

    def finish(self, manifest: DatasetManifest) -> None:
        """Complete the folder and make all of it durable, other files in it too; the writer takes nothing more."""
        self._commit()
        self.finish_rows()
        with disk_full_named(self._dir.path):
            self._rows.close()
            self._images.sync(True)  # noqa: FBT003 - lmdb takes no keyword here
            if self._removed_bytes > max(_COMPACT_BYTES, self.image_bytes // 10):
                self._compact()
            self._images.close()
            self._dir.manifest_path.write_text(manifest.model_dump_json(indent=1))
            for path in (*self._dir.path.iterdir(), self._dir.path):
                fsync_path(path)

    def _mark(self, query: str, values: tuple[object, ...] = ()) -> None:
        self._change(f"INSERT INTO marked {query}", values)

    def _change(self, statement: str, values: tuple[object, ...] = ()) -> None:
        with disk_full_named(self._dir.path):
            self._rows.execute(statement, values)

    def _batches(self, query: str) -> Iterator[list[int]]:
        rows = self._rows.execute(query)
        while batch := rows.fetchmany(_COMMIT_ROWS):
            yield [id_ for (id_,) in batch]

    def _remove_images(self, ids: Sequence[int]) -> None:
        def remove(transaction: Any) -> int:
            return sum(len(transaction.pop(image_key(id_))) for id_ in ids)

        removed_bytes = self._changed(remove)
        self.image_bytes -= removed_bytes
        self._removed_bytes += removed_bytes

    def _commit(self) -> None:
        """Store the waiting images."""

        def store(transaction: Any) -> int:
            for key, data in self._waiting:
                transaction.put(key, data, append=True)
            return 0

        if self._waiting:
            self._changed(store)
            self._waiting.clear()
            self._waiting_bytes = 0

    def _changed(self, change: Callable[[Any], int]) -> int:
        """Do it in one transaction of the images; the map doubles until it fits."""
        with disk_full_named(self._dir.path):
            while True:
                try:
                    with self._images.begin(write=True) as transaction:
                        return change(transaction)
                except lmdb.MapFullError:
                    self._images.set_mapsize(2 * self._images.info()["map_size"])

    def _compact(self) -> None:
        """Write the images anew without the gaps that those taken out have left."""
        beside = self._dir.images_path.with_suffix(".part")
        self._images.copy(str(beside), compact=True)
        self._images.close()
        beside.rename(self._dir.images_path)
