"""Copies of the database, and where asked for of all files, made while everything runs.

The database is copied first: files may then be newer than it, which a supervisor puts right when it reads on from the
cursor, and never older.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from pydantic import BaseModel, ValidationError

from jobs.backup_files import CopiedFile, copy_job, copy_secret, copy_tree, hashed
from jobs.hosts import fovea_version
from jobs.models import Job
from jobs.process import locked
from jobs.sizes import size_text
from jobs.storage import storage
from jobs.supervision.disk import taken_bytes
from jobs.table_copies import TableCopy, copy_out
from wire.errors import DiskFull
from wire.layout import JobDir, Storage

MANIFEST: Final = "manifest.json"
SQLITE_FILE: Final = "database.sqlite3"
TABLES_DIR: Final = "tables"
SECRET_FILE: Final = "secret.key"  # noqa: S105 - the name of a file
UNFINISHED: Final = ".unfinished"
LOCK: Final = "lock"
"""In a folder that is not finished, held by whoever fills it."""
NEWEST: Final = "newest.json"
BEFORE_MIGRATION: Final = "before-migration-"
KEPT_BEFORE_MIGRATION = 3

log = logging.getLogger(__name__)
Say = Callable[[str], object]


class Manifest(BaseModel):
    """What a backup holds, in ``manifest.json``; written last, so that a folder without it is none."""

    format: Literal[1] = 1
    made_at: datetime
    fovea: str
    database: Literal["sqlite", "postgresql"]
    migrations: dict[str, list[str]]
    """By app, in the order in which they were applied."""
    n_jobs: int
    has_data: bool
    """Whether the folders of jobs and the uploads are in it."""
    tables: list[TableCopy] = []
    files: list[CopiedFile]
    unsettled: list[int] = []
    """Jobs of which not all that their events announce could be copied."""


class Newest(BaseModel):
    """Which backup was made last, wherever it lies."""

    path: str
    made_at: datetime
    has_data: bool


def back_up(
    to: Path, *, with_data: bool = False, with_secret: bool = False, name: str = "", say: Say = log.info
) -> Path:
    """Make a backup in a new folder below ``to``, and give the folder.

    Args:
        to: where; made if need be.
        with_data: datasets, checkpoints and everything else that jobs made, and uploads.
        with_secret: the key that signs sessions and invitations. Who has it can sign in as anybody.
        name: of the folder; without it the time.
        say: told what is done, a line each time.

    Raises:
        DiskFull: it would not fit; nothing was written.
    """
    made_at = datetime.now(UTC)
    folder = to / (name or f"fovea-{made_at:%Y%m%d-%H%M%S}")
    beside = folder.with_name(folder.name + UNFINISHED)
    _check_room(to, with_data=with_data)
    beside.mkdir(mode=0o700, parents=True)
    try:
        with _held(beside):
            manifest = _Backup(beside, with_data=with_data, say=say).run(made_at, with_secret=with_secret)
            _write_durable(beside / MANIFEST, manifest.model_dump_json(indent=1).encode())
            if with_data:
                os.sync()
            (beside / LOCK).unlink(missing_ok=True)
            beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    _remember(Newest(path=str(folder), made_at=made_at, has_data=with_data))
    return folder


def _held(folder: Path) -> AbstractContextManager[object]:
    """Against the janitor, which looks into ``DATA_DIR`` alone: another disk may know no locks."""
    is_there = folder.resolve().parent == storage().backups_dir.resolve()
    return locked(folder / LOCK) if is_there else nullcontext()


def back_up_before_migrating(say: Say = log.info) -> Path | None:
    """Copy the database into ``DATA_DIR/backups`` if migrations are about to change it; the last three are kept.

    Raises:
        DiskFull: it would not fit.
    """
    if not _is_about_to_change():
        return None
    places = storage()
    name = f"{BEFORE_MIGRATION}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = back_up(places.backups_dir, name=name, say=say)
    earlier = sorted(places.backups_dir.glob(f"{BEFORE_MIGRATION}*"))
    for path in earlier[:-KEPT_BEFORE_MIGRATION]:
        shutil.rmtree(path, ignore_errors=True)
    return folder


def newest_backup() -> Newest | None:
    """The last that was made; None where none was, or nobody knows. Whether it is still there is not looked at."""
    try:
        return Newest.model_validate_json((storage().backups_dir / NEWEST).read_bytes())
    except (OSError, ValidationError):
        return None


def _remember(newest: Newest) -> None:
    path = storage().backups_dir / NEWEST
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(newest.model_dump_json())


def applied_migrations() -> dict[str, list[str]]:
    by_app: dict[str, list[str]] = {}
    for app, name in MigrationRecorder(connection).applied_migrations():
        by_app.setdefault(app, []).append(name)
    return by_app


def sqlite_path() -> Path:
    return Path(connection.settings_dict["NAME"]).resolve()


class _Backup:
    def __init__(self, folder: Path, *, with_data: bool, say: Say) -> None:
        self._folder = folder
        self._with_data = with_data
        self._say = say
        self._copies: set[Path] = set()
        self._unsettled: list[int] = []

    def run(self, made_at: datetime, *, with_secret: bool) -> Manifest:
        # Read before the database: of a job that is begun meanwhile the copy knows no more than the wish.
        job_ids = list(Job.objects.order_by("pk").values_list("pk", flat=True)) if self._with_data else []
        manifest = Manifest(
            made_at=made_at,
            fovea=fovea_version(),
            database="sqlite" if connection.vendor == "sqlite" else "postgresql",
            migrations=applied_migrations(),
            n_jobs=n_jobs(),
            has_data=self._with_data,
            files=[],
        )
        manifest.tables = self._copy_database()
        if self._with_data:
            self._copy_data(job_ids)
        if with_secret:
            self._copy_secret()
        # What was copied, not what is there: of what vanished since nobody is told that it was saved.
        manifest.files = [self._listed(path) for path in sorted(self._copies)]
        manifest.unsettled = self._unsettled
        return manifest

    def _copy_database(self) -> list[TableCopy]:
        self._say("Copying the database ...")
        if connection.vendor == "sqlite":
            copy_sqlite(sqlite_path(), self._folder / SQLITE_FILE)
            self._copies.add(self._folder / SQLITE_FILE)
            return []
        folder = self._folder / TABLES_DIR
        folder.mkdir()
        tables = copy_out(folder)
        self._copies |= {folder / table.file_name for table in tables}
        return tables

    def _copy_data(self, job_ids: Iterable[int]) -> None:
        source, target = storage(), Storage(self._folder)
        for job_id in job_ids:
            for folder in (source.job(job_id), JobDir(source.trashed(job_id))):
                if folder.path.is_dir():
                    self._say(f"Copying job {job_id} ...")
                    self._copy_job(job_id, folder, target.job(job_id))
        if source.uploads_dir.is_dir():
            self._say("Copying uploads ...")
            self._copies |= copy_tree(source.uploads_dir, target.uploads_dir)

    def _copy_job(self, job_id: int, source: JobDir, target: JobDir) -> None:
        copied = copy_job(source, target)
        self._copies |= copied.files
        if not copied.has_all:
            self._unsettled.append(job_id)
            self._say(f"WARNING: of job {job_id} not everything that its events announce could be copied.")

    def _copy_secret(self) -> None:
        path, copy = storage().root / SECRET_FILE, self._folder / SECRET_FILE
        if path.is_file():
            copy_secret(path, copy)
            self._copies.add(copy)

    def _listed(self, path: Path) -> CopiedFile:
        size, sha256 = hashed(path)
        return CopiedFile(path=path.relative_to(self._folder).as_posix(), bytes=size, sha256=sha256)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database that others write to, as it is at one moment, into a file that needs no other."""
    reading = sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)
    with closing(reading) as original, closing(sqlite3.connect(target)) as copy:
        # All pages in one step: in several, each transaction of somebody else would make it begin again.
        original.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode=DELETE")
    fd = os.open(target, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_about_to_change() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.loader.applied_migrations and executor.migration_plan(executor.loader.graph.leaf_nodes()))


def n_jobs() -> int:
    """By hand: before a migration the table has not every column that the model has."""
    with connection.cursor() as cursor:
        if Job._meta.db_table not in connection.introspection.table_names(cursor):
            return 0
        cursor.execute(f"SELECT COUNT(*) FROM {Job._meta.db_table}")  # noqa: S608 - the name is our own
        return int(cursor.fetchone()[0])


def _check_room(to: Path, *, with_data: bool) -> None:
    need_bytes = _database_bytes()
    if with_data:
        folders = (storage().jobs_dir, storage().trash_dir, storage().uploads_dir)
        need_bytes += sum(map(taken_bytes, folders))
    to.mkdir(parents=True, exist_ok=True)
    missing_bytes = need_bytes - shutil.disk_usage(to).free
    if missing_bytes > 0:
        raise DiskFull(
            f"The backup takes {size_text(need_bytes)}; {size_text(missing_bytes)} of room are missing in {to}.",
            hint="Free some space there, or let --to name a folder on another disk.",
        )


def _database_bytes() -> int:
    if connection.vendor == "sqlite":
        return sqlite_path().stat().st_size
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def _write_durable(path: Path, body: bytes) -> None:
    with path.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
