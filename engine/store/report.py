"""The import report: every file that is not in the dataset, with its reason, and images that are in it and flagged.

Light enough for the web process: no torch, no numpy, no Pillow.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from engine.store.disk import disk_full_named
from wire.errors import DatasetInvalid
from wire.layout import DatasetDir
from wire.manifests import ReportKind

_ROWS_AT_ONCE: Final = 500
_SCHEMA: Final = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    label TEXT,
    same_as INTEGER,
    kept INTEGER NOT NULL
);
PRAGMA user_version = 1;
"""
_INDEX: Final = "CREATE INDEX entries_by_kind ON entries (kind, id);"
_LIKE_WILDCARD: Final = re.compile(r"[\\%_]")
_ESCAPED: Final = r"\\\g<0>"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One file. ``id`` counts from 1."""

    id: int
    name: str
    kind: ReportKind
    reason: str
    """Ends the sentence "<name> was left out: ...", or "<name> is flagged: ..." where it was kept."""
    label: str | None = None
    """The name of its class, where it had one."""
    same_as: int | None = None
    """The image of the dataset that has the same bytes."""
    kept: bool = False


class ReportWriter:
    """Takes entries one by one; few wait in memory.

    Raises:
        DiskFull: from any method.
    """

    def __init__(self, dataset_dir: Path) -> None:
        self._dir = DatasetDir(dataset_dir)
        self.n_left_out: Counter[ReportKind] = Counter()
        self.n_flagged = 0
        self._waiting: list[tuple[object, ...]] = []
        self._rows = sqlite3.connect(self._dir.report_path, isolation_level=None)
        self._rows.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        self._rows.execute("BEGIN")

    def add(
        self,
        name: str,
        kind: ReportKind,
        reason: str,
        *,
        label: str | None = None,
        same_as: int | None = None,
        kept: bool = False,
    ) -> None:
        if kept:
            self.n_flagged += 1
        else:
            self.n_left_out[kind] += 1
        self._waiting.append((name, kind, reason, label, same_as, kept))
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._insert()

    def finish(self) -> None:
        """Complete the file, after ``samples.sqlite``; who calls this sees to it that it is on disk."""
        self._insert()
        with disk_full_named(self._dir.path):
            self._rows.execute("COMMIT")
            self._rows.execute("ATTACH ? AS dataset", (str(self._dir.samples_path),))
            # The twin for which a file was left out may itself have left later.
            self._rows.execute(
                "UPDATE entries SET same_as = NULL WHERE same_as NOT IN (SELECT id FROM dataset.samples)"
            )
            self._rows.execute("DETACH dataset")
            self._rows.executescript(_INDEX + "ANALYZE;")
            self._rows.close()

    def close(self) -> None:
        self._rows.close()

    def _insert(self) -> None:
        with disk_full_named(self._dir.path):
            self._rows.executemany("INSERT INTO entries VALUES (NULL, ?, ?, ?, ?, ?, ?)", self._waiting)
        self._waiting.clear()


class ReportReader:
    """The report of one dataset; usable from several threads. A dataset without a report has no entries.

    Raises:
        DatasetInvalid: the report is damaged. Any method may raise this.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._rows: sqlite3.Connection | None = None
        report_path = DatasetDir(path).report_path
        if report_path.is_file():
            # `immutable` reads without taking locks: no journal can appear beside a file that never changes.
            uri = f"{report_path.resolve().as_uri()}?mode=ro&immutable=1"
            self._rows = sqlite3.connect(uri, uri=True, check_same_thread=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(
        self, kind: ReportKind | None = None, q: str = "", offset: int = 0, limit: int | None = None
    ) -> list[ReportEntry]:
        """Rows in the order in which they were met; ``q`` stands somewhere in the name or in the reason."""
        where, values = _where(kind, q)
        query = f"SELECT id, name, kind, reason, label, same_as, kept FROM entries {where} ORDER BY id LIMIT ? OFFSET ?"  # noqa: S608 - `where` holds no value
        rows = self._query(query, (*values, -1 if limit is None else limit, offset))
        return [
            ReportEntry(id_, name, kind_, reason, label, same_as, bool(kept))
            for id_, name, kind_, reason, label, same_as, kept in rows
        ]

    def count(self, kind: ReportKind | None = None, q: str = "") -> int:
        where, values = _where(kind, q)
        rows = self._query(f"SELECT count(*) FROM entries {where}", values)  # noqa: S608 - `where` holds no value
        return int(rows[0][0]) if rows else 0

    def counts(self) -> dict[ReportKind, int]:
        """Entries of each kind that has any, those that were kept too."""
        return dict(self._query("SELECT kind, count(*) FROM entries GROUP BY kind ORDER BY kind", ()))

    def close(self) -> None:
        with self._lock:
            if self._rows is not None:
                self._rows.close()
                self._rows = None

    def _query(self, query: str, values: tuple[object, ...]) -> list[Any]:
        with self._damage_named(), self._lock:
            return [] if self._rows is None else self._rows.execute(query, values).fetchall()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise DatasetInvalid(
                f"The dataset at {self.path} is damaged: report.sqlite cannot be read ({error}).",
                hint="Import the images again.",
            ) from error


def _where(kind: ReportKind | None, q: str) -> tuple[str, tuple[object, ...]]:
    conditions: list[str] = []
    values: list[object] = []
    if kind is not None:
        conditions.append("kind = ?")
        values.append(kind)
    if q:
        conditions.append(r"(name LIKE ? ESCAPE '\' OR reason LIKE ? ESCAPE '\')")
        values += 2 * [f"%{_LIKE_WILDCARD.sub(_ESCAPED, q)}%"]
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), tuple(values)
