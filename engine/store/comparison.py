"""Two ``predictions.sqlite`` side by side: what each answered about the images that both saw. Light enough for the web.

Images are matched by split and sample, so both files have to be about the same dataset. Answers are compared by the
names of the classes: a label is a place in the list of its own file.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from wire.errors import NotFound
from wire.manifests import SplitName

Kind: TypeAlias = Literal["differ", "only_a", "only_b", "both_wrong", "both_right"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_CONDITIONS: Final[dict[Kind, str]] = {
    "differ": "same = 0",
    "only_a": "right_a = 1 AND right_b = 0",
    "only_b": "right_a = 0 AND right_b = 1",
    "both_wrong": "right_a = 0 AND right_b = 0",
    "both_right": "right_a = 1 AND right_b = 1",
}
_THEIRS: Final = "CREATE TEMP TABLE theirs (label INTEGER PRIMARY KEY, name INTEGER NOT NULL)"
"""Label of B's classes -> place of that name in the names of both."""
# Keyed by sample, which the files have no index of: without it every image of A is looked for in all of B.
_SEEN: Final = "CREATE TEMP TABLE seen (sample INTEGER PRIMARY KEY, id_b, label, predicted, confidence)"
_SEE: Final = """
INSERT OR REPLACE INTO seen SELECT sample, id, label, predicted, confidence FROM b.predictions
WHERE split = ? AND sample IS NOT NULL
"""
# `apart` orders: two different answers, the surest first, then equal ones by how unlike their probabilities are.
# NULL, no answer, is like no other and never right.
_PAIRS: Final = """
CREATE TEMP TABLE pairs AS
SELECT id_a, id_b, truth, said_a, said_b, share_a, share_b,
       ifnull(said_a = truth, 0) AS right_a,
       ifnull(said_b = truth, 0) AS right_b,
       ifnull(said_a = said_b, 0) AS same,
       CASE WHEN said_a = said_b THEN abs(share_a - share_b) ELSE ifnull(share_a, 0) + ifnull(share_b, 0) END AS apart
FROM (
    SELECT a.id AS id_a, id_b, coalesce(a.label, truths.name) AS truth,
           a.predicted AS said_a, answers.name AS said_b, a.confidence AS share_a, b.confidence AS share_b
    FROM a.predictions AS a
    CROSS JOIN seen AS b ON b.sample = a.sample
    LEFT JOIN theirs AS truths ON truths.label = b.label
    LEFT JOIN theirs AS answers ON answers.label = b.predicted
    WHERE a.split = ?
)
WHERE truth IS NOT NULL
"""
_COUNTS: Final = """
SELECT count(*), ifnull(sum(right_a AND right_b), 0), ifnull(sum(right_a AND NOT right_b), 0),
       ifnull(sum(right_b AND NOT right_a), 0), ifnull(sum(same), 0)
FROM pairs
"""
_ROWS: Final = """
SELECT a.sample, a.name, truth, said_a, said_b, share_a, share_b, same, a.error, b.error
FROM pairs JOIN a.predictions AS a ON a.id = id_a JOIN b.predictions AS b ON b.id = id_b
WHERE {condition} ORDER BY same, apart DESC, id_a
"""
_CHUNK_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Said:
    """An answer; without a name there is none, and ``error`` says why."""

    name: str | None
    probability: float | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """What both said about one image."""

    sample: int
    name: str
    truth: str
    a: Said
    b: Said
    same: bool

    @property
    def right_a(self) -> bool:
        return self.a.name == self.truth

    @property
    def right_b(self) -> bool:
        return self.b.name == self.truth


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the images of one split that both saw and whose class is known."""

    n_images: int
    n_both_right: int
    n_only_a: int
    n_only_b: int
    n_same: int
    """With the same first answer, right or wrong."""

    @property
    def n_both_wrong(self) -> int:
        return self.n_images - self.n_both_right - self.n_only_a - self.n_only_b

    @property
    def n_differ(self) -> int:
        return self.n_images - self.n_same

    @property
    def accuracy_a(self) -> float | None:
        """0 to 1; None where there is no image."""
        return self._share(self.n_both_right + self.n_only_a)

    @property
    def accuracy_b(self) -> float | None:
        return self._share(self.n_both_right + self.n_only_b)

    @property
    def agreement(self) -> float | None:
        return self._share(self.n_same)

    def of_kind(self, kind: Kind) -> int:
        return {
            "differ": self.n_differ,
            "only_a": self.n_only_a,
            "only_b": self.n_only_b,
            "both_wrong": self.n_both_wrong,
            "both_right": self.n_both_right,
        }[kind]

    def _share(self, n: int) -> float | None:
        return n / self.n_images if self.n_images else None


class ComparisonReader:
    """Both files at once; usable from several threads, by one after the other.

    Raises:
        NotFound: a file is not there, or is damaged. Any method may raise this.
    """

    def __init__(self, path_a: Path, path_b: Path) -> None:
        self._paths = (path_a, path_b)
        self._lock = threading.Lock()
        self._split: SplitName | None = None
        self._rows = sqlite3.connect(":memory:", uri=True, check_same_thread=False, isolation_level=None)
        try:
            with self._damage_named():
                for name, path in zip("ab", self._paths, strict=True):
                    self._attach(name, path)
                self._names, theirs = _names_of_both(self._classes("a"), self._classes("b"))
                self._rows.execute(_THEIRS)
                self._rows.executemany("INSERT INTO theirs VALUES (?, ?)", enumerate(theirs))
        except NotFound:
            self._rows.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._rows.close()

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """Those that both have images of; not yet whether any image is in both."""
        query = "SELECT DISTINCT split FROM {}.predictions WHERE sample IS NOT NULL"
        with self._lock, self._damage_named():
            of_a, of_b = ({row[0] for row in self._rows.execute(query.format(name))} for name in "ab")
        return tuple(split for split in get_args(SplitName) if split in of_a & of_b)

    def counts(self, split: SplitName) -> Counts:
        """Cost: the first time for a split, one pass over both files; a tenth of a second for 100,000 images."""
        with self._lock, self._damage_named():
            self._pair(split)
            return Counts(*self._rows.execute(_COUNTS).fetchone())

    def page(self, split: SplitName, kind: Kind, *, offset: int = 0, limit: int = 60) -> list[Pair]:
        """Different answers first, of those the surest; then by how unlike their probabilities are."""
        query = f"{_ROWS.format(condition=_CONDITIONS[kind])} LIMIT ? OFFSET ?"
        with self._lock, self._damage_named():
            self._pair(split)
            return [self._made(row) for row in self._rows.execute(query, (limit, offset))]

    def iterate(self, split: SplitName, kind: Kind) -> Iterator[Pair]:
        """All of them, a chunk in memory at a time."""
        with self._lock, self._damage_named():
            self._pair(split)
            cursor = self._rows.execute(_ROWS.format(condition=_CONDITIONS[kind]))
        while True:
            with self._lock, self._damage_named():
                chunk = cursor.fetchmany(_CHUNK_ROWS)
            if not chunk:
                return
            yield from map(self._made, chunk)

    def _attach(self, name: str, path: Path) -> None:
        if not path.is_file():
            raise NotFound(f"There are no predictions at {path}.", hint="They may have been deleted; make them again.")
        # `immutable` reads without taking locks: the files never change.
        self._rows.execute(f"ATTACH ? AS {name}", (f"{path.resolve().as_uri()}?mode=ro&immutable=1",))

    def _classes(self, name: str) -> list[str]:
        query = f"SELECT value FROM {name}.facts WHERE name = 'classes'"  # noqa: S608 - one of two letters
        found = self._rows.execute(query).fetchone()
        return list(json.loads(found[0])) if found else []

    def _pair(self, split: SplitName) -> None:
        if self._split == split:
            return
        for table in ("seen", "pairs"):
            self._rows.execute(f"DROP TABLE IF EXISTS {table}")
        self._rows.execute(_SEEN)
        self._rows.execute(_SEE, (split,))
        self._rows.execute(_PAIRS, (split,))
        self._split = split

    def _made(self, row: tuple[Any, ...]) -> Pair:
        sample, name, truth, said_a, said_b, share_a, share_b, same, error_a, error_b = row
        return Pair(
            sample=sample,
            name=name,
            truth=self._names[truth],
            a=Said(self._name(said_a), share_a, error_a),
            b=Said(self._name(said_b), share_b, error_b),
            same=bool(same),
        )

    def _name(self, place: int | None) -> str | None:
        return None if place is None else self._names[place]

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            where = " or ".join(str(path) for path in self._paths)
            raise NotFound(f"The predictions at {where} are damaged: {error}.", hint="Make them again.") from error


def _names_of_both(of_a: Sequence[str], of_b: Sequence[str]) -> tuple[list[str], list[int]]:
    """A's names, then those that B alone knows; and the place therein of each of B's."""
    names = list(of_a)
    places = {name: place for place, name in enumerate(names)}
    for name in of_b:
        if name not in places:
            places[name] = len(names)
            names.append(name)
    return names, [places[name] for name in of_b]
