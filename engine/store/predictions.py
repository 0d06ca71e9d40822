"""``predictions.sqlite``: what a network answered, a row for each image. Light enough for the web process.

A row's ``wrong`` is 0 or 1 where both the truth and an answer are known, else NULL. Numbers that are not finite are
NULL. The file is complete once its folder is in place; it never changes after that.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, TypedDict, Unpack

from engine.store.disk import fsync_path
from wire.errors import DiskFull, NotFound
from wire.layout import PredictionsDir
from wire.manifests import SplitName

Sort: TypeAlias = Literal["id", "confidence", "-confidence", "loss", "-loss", "name", "truth_probability"]

_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE predictions (
    id INTEGER PRIMARY KEY,
    split TEXT CHECK (split IN ('train', 'val', 'test')),
    sample INTEGER,
    name TEXT NOT NULL,
    label INTEGER,
    predicted INTEGER,
    confidence REAL,
    truth_probability REAL,
    loss REAL,
    error TEXT,
    wrong INTEGER
);
CREATE TABLE tops (
    prediction INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    label INTEGER NOT NULL,
    probability REAL NOT NULL,
    PRIMARY KEY (prediction, rank)
) WITHOUT ROWID;
CREATE TABLE thumbnails (prediction INTEGER PRIMARY KEY, image BLOB NOT NULL, mime TEXT NOT NULL);
PRAGMA user_version = 1;
"""
# One for every order, alone and within a split, and one for every cell of the confusion matrix.
_INDEXES: Final = """
CREATE INDEX predictions_by_split ON predictions (split);
CREATE INDEX predictions_by_name ON predictions (name);
CREATE INDEX predictions_by_split_name ON predictions (split, name);
CREATE INDEX predictions_by_loss ON predictions (loss);
CREATE INDEX predictions_by_split_loss ON predictions (split, loss);
CREATE INDEX predictions_by_confidence ON predictions (confidence);
CREATE INDEX predictions_by_split_confidence ON predictions (split, confidence);
CREATE INDEX predictions_by_truth ON predictions (truth_probability);
CREATE INDEX predictions_by_split_truth ON predictions (split, truth_probability);
CREATE INDEX predictions_by_wrong_loss ON predictions (wrong, loss);
CREATE INDEX predictions_by_split_wrong_loss ON predictions (split, wrong, loss);
CREATE INDEX predictions_by_cell ON predictions (label, predicted);
CREATE INDEX predictions_by_split_cell ON predictions (split, label, predicted);
CREATE INDEX predictions_by_predicted ON predictions (predicted);
CREATE INDEX predictions_unreadable ON predictions (id) WHERE error IS NOT NULL;
CREATE INDEX tops_by_label ON tops (label, probability);
ANALYZE;
"""
_COLUMNS: Final = "id, split, sample, name, label, predicted, confidence, truth_probability, loss, error"
# Ties go by id, in the direction of the index, which so gives the rows in order. NULL comes last.
_ORDERS: Final[dict[Sort, str]] = {
    "id": "id",
    "confidence": "confidence ASC NULLS LAST, id",
    "-confidence": "confidence DESC, id DESC",
    "loss": "loss ASC NULLS LAST, id",
    "-loss": "loss DESC, id DESC",
    "name": "name, id",
    "truth_probability": "truth_probability ASC NULLS LAST, id",
}
_CHUNK_ROWS: Final = 500
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the network answered for one image; labels are numbers of the checkpoint's classes."""

    id: int
    split: SplitName | None
    sample: int | None
    """Its id in the dataset; None for images that were brought."""
    name: str
    label: int | None
    """The truth, where it is known."""
    predicted: int | None
    confidence: float | None
    """The probability of ``predicted``."""
    truth_probability: float | None
    loss: float | None
    """Cross entropy of this image."""
    error: str | None
    """Why there is no answer, as the end of a sentence about the image."""
    top: tuple[tuple[int, float], ...] = ()
    """Label and probability, the most probable first."""

    @property
    def wrong(self) -> bool | None:
        return None if self.label is None or self.predicted is None else self.label != self.predicted


@dataclass(frozen=True, slots=True)
class Thumbnail:
    image: bytes
    mime: str


class Filters(TypedDict, total=False):
    split: SplitName | None
    label: int | None
    predicted: int | None
    wrong: bool | None
    unreadable: bool | None
    """Whether there is no answer, because the image could not be read."""
    q: str
    """Part of the name, whatever the case of A to Z."""


class PredictionsWriter:
    """Fills a new file; ids are the caller's, and ascend.

    Raises:
        DiskFull: from any method.
    """

    def __init__(self, path: Path, classes: Sequence[str]) -> None:
        self._path = path
        self._rows = sqlite3.connect(path, isolation_level=None)
        with _disk_full_named(path):
            self._rows.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
            self._rows.execute("BEGIN")
            self._rows.execute("INSERT INTO facts VALUES ('classes', ?)", (json.dumps(list(classes)),))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows.close()

    def add(self, predictions: Iterable[Prediction]) -> None:
        rows, tops = [], []
        for one in predictions:
            numbers = (one.confidence, one.truth_probability, one.loss)
            finite = (number if number is not None and math.isfinite(number) else None for number in numbers)
            known = (one.id, one.split, one.sample, one.name, one.label, one.predicted)
            rows.append((*known, *finite, one.error, one.wrong))
            tops += [(one.id, rank, label, share) for rank, (label, share) in enumerate(one.top, start=1)]
        with _disk_full_named(self._path):
            self._rows.executemany("INSERT INTO predictions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._rows.executemany("INSERT INTO tops VALUES (?, ?, ?, ?)", tops)

    def add_thumbnail(self, prediction_id: int, thumbnail: Thumbnail) -> None:
        with _disk_full_named(self._path):
            values = (prediction_id, thumbnail.image, thumbnail.mime)
            self._rows.execute("INSERT INTO thumbnails VALUES (?, ?, ?)", values)

    def finish(self) -> None:
        """Complete the file and make it durable; the writer takes nothing more. Cost: the indexes, and one fsync."""
        with _disk_full_named(self._path):
            self._rows.execute("COMMIT")
            self._rows.executescript(_INDEXES)
            self._rows.close()
        fsync_path(self._path)


class PredictionsReader:
    """Rows of one evaluation or classification; usable from several threads.

    Raises:
        NotFound: there is no such file, or it is damaged. Any method may raise this.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = PredictionsDir(path).predictions_path
        if not self._file.is_file():
            raise NotFound(f"There are no predictions at {path}.", hint="They may have been deleted; make them again.")
        self._lock = threading.Lock()
        self._rows = _connect(self._file)
        self._classes: tuple[str, ...] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._rows.close()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the checkpoint's classes; a label is a place in here."""
        if self._classes is None:
            rows = self._query("SELECT value FROM facts WHERE name = 'classes'", ())
            self._classes = tuple(json.loads(rows[0][0])) if rows else ()
        return self._classes

    def page(
        self, *, sort: Sort = "id", offset: int = 0, limit: int = 60, **filters: Unpack[Filters]
    ) -> list[Prediction]:
        """Cost: two queries, whatever the number of rows."""
        query, values = _select(sort, filters)
        rows = self._query(f"{query} LIMIT ? OFFSET ?", (*values, _bounded(limit), _bounded(offset)))
        return self._with_tops(rows)

    def count(self, **filters: Unpack[Filters]) -> int:
        where, values = _where(filters)
        return int(self._query(f"SELECT count(*) FROM predictions {where}", values)[0][0])  # noqa: S608 - no value in it

    def get(self, prediction_id: int) -> Prediction | None:
        query = f"SELECT {_COLUMNS} FROM predictions WHERE id = ?"  # noqa: S608 - no value in it
        found = self._with_tops(self._query(query, (_bounded(prediction_id),)))
        return found[0] if found else None

    def top_of_class(self, label: int, n: int) -> list[Prediction]:
        """Images that the network is surest to be of that class, of those that have it among their top. Two queries."""
        query = (
            f"SELECT {_COLUMNS} FROM (SELECT prediction, probability FROM tops WHERE label = ?"  # noqa: S608 - no value in it
            " ORDER BY probability DESC, prediction DESC LIMIT ?) AS surest"
            " JOIN predictions ON id = prediction ORDER BY probability DESC, id DESC"
        )
        return self._with_tops(self._query(query, (_bounded(label), _bounded(n))))

    def thumbnail(self, prediction_id: int) -> tuple[bytes, str] | None:
        query = "SELECT image, mime FROM thumbnails WHERE prediction = ?"
        rows = self._query(query, (_bounded(prediction_id),))
        return (bytes(rows[0][0]), str(rows[0][1])) if rows else None

    def iterate(self, *, sort: Sort = "id", **filters: Unpack[Filters]) -> Iterator[Prediction]:
        """All rows, a chunk in memory at a time; on a connection of its own, so that others need not wait."""
        query, values = _select(sort, filters)
        with self._damage_named(), closing(_connect(self._file)) as rows:
            cursor = rows.execute(query, values)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield from self._with_tops(chunk)

    def _with_tops(self, rows: list[tuple[Any, ...]]) -> list[Prediction]:
        ids = [row[0] for row in rows]
        tops: dict[int, list[tuple[int, float]]] = {id_: [] for id_ in ids}
        # One value holds all ids: a page may have more of them than a statement may have parameters.
        query = (
            "SELECT prediction, label, probability FROM tops"
            " WHERE prediction IN (SELECT value FROM json_each(?)) ORDER BY prediction, rank"
        )
        for id_, label, probability in self._query(query, (json.dumps(ids),)):
            tops[id_].append((label, probability))
        return [Prediction(*(*row, tuple(tops[row[0]]))) for row in rows]

    def _query(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._damage_named(), self._lock:
            return self._rows.execute(query, values).fetchall()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise NotFound(f"The predictions at {self.path} are damaged: {error}.", hint="Make them again.") from error


def _connect(path: Path) -> sqlite3.Connection:
    # `immutable` reads without taking locks: no journal can appear beside a file that never changes.
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _select(sort: Sort, filters: Filters) -> tuple[str, tuple[object, ...]]:
    where, values = _where(filters)
    return f"SELECT {_COLUMNS} FROM predictions {where} ORDER BY {_ORDERS[sort]}", values  # noqa: S608 - no value in it


def _where(filters: Filters) -> tuple[str, tuple[object, ...]]:
    clauses: list[str] = []
    values: list[object] = []
    for column in ("split", "label", "predicted", "wrong"):
        value = filters.get(column)
        if value is not None:
            clauses.append(f"{column} = ?")
            values.append(_bounded(value) if isinstance(value, int) else value)
    if (unreadable := filters.get("unreadable")) is not None:
        clauses.append("error IS NOT NULL" if unreadable else "error IS NULL")
    if text := filters.get("q"):
        clauses.append("name LIKE ? ESCAPE '\\'")
        values.append(f"%{_literal(text)}%")
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), tuple(values)


def _literal(text: str) -> str:
    """For LIKE, which has two signs of its own."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _bounded(number: int) -> int:
    """What SQLite can take; nothing has a larger number."""
    return max(-_LARGEST, min(number, _LARGEST))


@contextmanager
def _disk_full_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" not in str(error):
            raise
        with suppress(OSError):
            path.unlink()
        raise DiskFull(
            f"The disk is full while writing the predictions to {path}.", hint="Free some space, then start again."
        ) from error
