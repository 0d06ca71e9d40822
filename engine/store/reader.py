"""Reading a dataset. Light enough for the web process: no torch, no numpy, no Pillow."""

from __future__ import annotations

import sqlite3
import threading
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
        self, split: SplitName | None = None, *, label: int | None = None, offset: int = 0, limit: int | None = None
    ) -> list[Sample]:
        """Rows in the order of their ids. Cost: one query, with an index on split and label."""
        where, values = _where(split, label)
        query = (
            f"SELECT id, name, split, label, width, height, sha256 FROM samples {where} ORDER BY id LIMIT ? OFFSET ?"  # noqa: S608 - `where` holds no value
        )
        rows = self._query(query, (*values, -1 if limit is None else limit, offset))
        return [Sample(*row) for row in rows]

    def count(self, split: SplitName | None = None, *, label: int | None = None) -> int:
        where, values = _where(split, label)
        rows = self._query(f"SELECT count(*) FROM samples {where}", values)  # noqa: S608 - `where` holds no value
        return int(rows[0][0])

    def image_bytes(self, sample_id: int) -> bytes:
        """The encoded image, byte for byte as it was imported.

        Raises:
            NotFound: the dataset has no sample of this id.
        """
        import lmdb

        try:
            with self._environment().begin() as transaction:
                data = transaction.get(image_key(sample_id)) if sample_id >= 0 else None
        except lmdb.Error as error:
            raise _damaged(self.path, f"images.lmdb cannot be read ({error})") from error
        if data is None:
            raise NotFound(f"The dataset {self.manifest.name!r} has no image {sample_id}.", hint="Reload the page.")
        return bytes(data)

    def close(self) -> None:
        with self._lock:
            if self._rows is not None:
                self._rows.close()
                self._rows = None
            if self._images is not None:
                _SHARED.release(self._dir.images_path)
                self._images = None

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


def _where(split: SplitName | None, label: int | None) -> tuple[str, tuple[object, ...]]:
    wanted = [(column, value) for column, value in (("split", split), ("label", label)) if value is not None]
    clause = " AND ".join(f"{column} = ?" for column, _ in wanted)
    return (f"WHERE {clause}" if clause else ""), tuple(value for _, value in wanted)


def _damaged(path: Path, what: str) -> DatasetInvalid:
    return DatasetInvalid(f"The dataset at {path} is damaged: {what}.", hint="Import the images again.")
