"""Reading a dataset. Light enough for the web process: no torch, no numpy, no Pillow."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import ValidationError

from wire.errors import DatasetInvalid, DatasetMissing, NotFound
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest, SplitName

if TYPE_CHECKING:
    import lmdb

IMAGE_KEY_BYTES: Final = 8
MOST_SIZE_BINS: Final = 64
"""Along each side, so that at most its square of groups leave the database."""

_LARGEST_ID: Final = 2**63 - 1
_LIKE_WILDCARD: Final = re.compile(r"[\\%_]")
_ESCAPED: Final = r"\\\g<0>"
_COLUMNS: Final = "id, name, split, label, width, height, sha256"


def image_key(sample_id: int) -> bytes:
    """The key in ``images.lmdb``: the sample's id, big-endian, so that keys sort as ids do."""
    return sample_id.to_bytes(IMAGE_KEY_BYTES, "big")


@dataclass(frozen=True, slots=True)
class Sample:
    id: int
    name: str
    """Its path in the tree that was imported."""
    split: SplitName
    label: int
    width: int
    height: int
    sha256: str
    """Of the encoded bytes."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Where a sample lies among those that a filter leaves, in the order of ids."""

    previous: int | None
    next: int | None
    n_before: int


@dataclass(frozen=True, slots=True)
class SizeBin:
    """So many images whose sides lie in ``[width_px, width_px + bin_px)``, and the height's likewise."""

    width_px: int
    height_px: int
    n_images: int


class DatasetReader:
    """Rows and bytes of one dataset; usable from several threads. Files are opened when first needed.

    Raises:
        DatasetMissing: there is no folder or no manifest in it.
        DatasetInvalid: it is there and damaged. Any method may raise this.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dir = DatasetDir(path)
        self.manifest = _manifest(self._dir)
        for part in (self._dir.samples_path, self._dir.images_path):
            if not part.is_file():
                raise _damaged(path, f"{part.name} is missing")
        self._lock = threading.Lock()
        self._rows: sqlite3.Connection | None = None
        self._images: lmdb.Environment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def samples(
        self,
        split: SplitName | None = None,
        *,
        label: int | None = None,
        q: str = "",
        offset: int = 0,
        limit: int | None = None,
    ) -> list[Sample]:
        """Rows in the order of their ids; ``q`` stands somewhere in the name, ASCII letters of either case.

        Cost: one query, over an index where there is no ``q``.
        """
        where, values = _where(split, label, q)
        # First the ids, for which an index is enough; whole rows of a page only, however far into the dataset it lies.
        query = (
            f"SELECT {_COLUMNS} FROM samples WHERE id IN "  # noqa: S608 - `where` holds no value
            f"(SELECT id FROM samples {where} ORDER BY id LIMIT ? OFFSET ?) ORDER BY id"
        )
        rows = self._query(query, (*values, -1 if limit is None else limit, offset))
        return [Sample(*row) for row in rows]

    def sample(self, sample_id: int) -> Sample:
        """One row.

        Raises:
            NotFound: the dataset has no sample of this id.
        """
        rows = self._query(f"SELECT {_COLUMNS} FROM samples WHERE id = ?", (min(sample_id, _LARGEST_ID),))  # noqa: S608
        if not rows:
            raise self._not_found(sample_id)
        return Sample(*rows[0])

    def samples_named(self, ids: Sequence[int]) -> list[Sample]:
        """Those of these ids that there are, in the order of ids. For a page of them: each is a value of the query."""
        places = ", ".join("?" * len(ids))
        query = f"SELECT {_COLUMNS} FROM samples WHERE id IN ({places}) ORDER BY id"  # noqa: S608 - question marks
        return [Sample(*row) for row in self._query(query, tuple(ids))]

    def first_outside(self, n_classes: int) -> Sample | None:
        """A sample whose label is no number of a class. Cost: two look-ups in an index."""
        query = f"SELECT {_COLUMNS} FROM samples WHERE label < 0 OR label >= ? ORDER BY id LIMIT 1"  # noqa: S608
        rows = self._query(query, (n_classes,))
        return Sample(*rows[0]) if rows else None

    def count(self, split: SplitName | None = None, *, label: int | None = None, q: str = "") -> int:
        """Cost: one query where there is a ``q``, else none: the manifest knows."""
        if not q:
            return _n_images(self.manifest, split, label)
        where, values = _where(split, label, q)
        rows = self._query(f"SELECT count(*) FROM samples {where}", values)  # noqa: S608 - `where` holds no value
        return int(rows[0][0])

    def neighbours(
        self, sample_id: int, split: SplitName | None = None, *, label: int | None = None, q: str = ""
    ) -> Neighbours:
        """The samples before and after this one among those that the filter leaves. Cost: one query."""
        before, values = _where(split, label, q, "id < ?")
        after, _ = _where(split, label, q, "id > ?")
        values = (*values, sample_id)
        query = (
            f"SELECT (SELECT id FROM samples {before} ORDER BY id DESC LIMIT 1), "  # noqa: S608 - no value in it
            f"(SELECT id FROM samples {after} ORDER BY id LIMIT 1), (SELECT count(*) FROM samples {before})"
        )
        ((previous, following, n_before),) = self._query(query, values * 3)
        return Neighbours(previous, following, n_before)

    def sizes(self) -> tuple[int, list[SizeBin]]:
        """The side of a bin in pixels, and every bin that holds images. Cost: one query over all rows."""
        largest = max(self.manifest.width_px.max, self.manifest.height_px.max)
        bin_px = max(1, -(-largest // MOST_SIZE_BINS))
        rows = self._query(
            "SELECT width / ?1 * ?1, height / ?1 * ?1, count(*) FROM samples GROUP BY 1, 2 ORDER BY 1, 2", (bin_px,)
        )
        return bin_px, [SizeBin(*row) for row in rows]

    def image_bytes(self, sample_id: int) -> bytes:
        """The encoded image, byte for byte as it was imported.

        Raises:
            NotFound: the dataset has no sample of this id.
        """
        import lmdb

        try:
            with self._environment().begin() as transaction:
                data = transaction.get(image_key(sample_id)) if 0 <= sample_id <= _LARGEST_ID else None
        except lmdb.Error as error:
            raise _damaged(self.path, f"images.lmdb cannot be read ({error})") from error
        if data is None:
            raise self._not_found(sample_id)
        return bytes(data)

    def close(self) -> None:
        with self._lock:
            if self._rows is not None:
                self._rows.close()
                self._rows = None
            if self._images is not None:
                _SHARED.release(self._dir.images_path)
                self._images = None

    def _not_found(self, sample_id: int) -> NotFound:
        return NotFound(f"The dataset {self.manifest.name!r} has no image {sample_id}.", hint="Reload the page.")

    def _query(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                if self._rows is None:
                    self._rows = _connect(self._dir.samples_path)
                return self._rows.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, f"samples.sqlite cannot be read ({error})") from error

    def _environment(self) -> lmdb.Environment:
        with self._lock:
            if self._images is None:
                self._images = _SHARED.acquire(self._dir.images_path)
            return self._images


class _SharedEnvironments:
    """LMDB refuses to open a file twice in one process, and two requests may well read the same dataset at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[lmdb.Environment, int]] = {}

    def acquire(self, path: Path) -> lmdb.Environment:
        import lmdb

        path = path.resolve()
        with self._lock:
            if path in self._open:
                environment, n_users = self._open[path]
            else:
                # A dataset never changes, so there is nothing to lock, and no folder of another to write into.
                environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=False)
                n_users = 0
            self._open[path] = (environment, n_users + 1)
            return environment

    def release(self, path: Path) -> None:
        path = path.resolve()
        with self._lock:
            environment, n_users = self._open.pop(path)
            if n_users > 1:
                self._open[path] = (environment, n_users - 1)
            else:
                environment.close()


_SHARED = _SharedEnvironments()


def _manifest(folder: DatasetDir) -> DatasetManifest:
    try:
        return DatasetManifest.model_validate_json(folder.manifest_path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetMissing(
            f"There is no dataset at {folder.path}.", hint="It may have been deleted; import the images again."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise _damaged(folder.path, f"manifest.json is not valid at {where}: {first['msg']}") from error


def _connect(path: Path) -> sqlite3.Connection:
    # `immutable` reads without taking locks: no journal can appear beside a file that never changes.
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _where(split: SplitName | None, label: int | None, q: str = "", *more: str) -> tuple[str, tuple[object, ...]]:
    """A clause and its values; ``more`` are conditions whose values come after them."""
    text = f"%{_LIKE_WILDCARD.sub(_ESCAPED, q)}%" if q else None
    wanted = {"split = ?": split, "label = ?": label, r"name LIKE ? ESCAPE '\'": text}
    asked = {condition: value for condition, value in wanted.items() if value is not None}
    conditions = [*asked, *more]
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), tuple(asked.values())


def _n_images(manifest: DatasetManifest, split: SplitName | None, label: int | None) -> int:
    if label is None:
        return manifest.n_images(split)
    splits = manifest.counts.values() if split is None else (manifest.counts.get(split, ()),)
    return sum(counts[label] for counts in splits if 0 <= label < len(counts))


def _damaged(path: Path, what: str) -> DatasetInvalid:
    return DatasetInvalid(f"The dataset at {path} is damaged: {what}.", hint="Import the images again.")
