"""The way back from ``jobs.backup``. What is there is put aside, never written over."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from pydantic import ValidationError

from jobs import records
from jobs.backup import (
    MANIFEST,
    SECRET_FILE,
    SQLITE_FILE,
    TABLES_DIR,
    Manifest,
    applied_migrations,
    sqlite_path,
)
from jobs.backup_files import hashed
from jobs.models import Job
from jobs.row_ids import reserve_ids
from jobs.standstill import check_standstill
from jobs.storage import storage
from jobs.table_copies import copy_in
from wire.errors import ActionRefused, BackupDamaged
from wire.layout import Storage

log = logging.getLogger(__name__)
Say = Callable[[str], object]


@dataclass(slots=True)
class Restored:
    n_jobs: int
    set_aside: list[Path] = field(default_factory=list)
    """Where that which was there before lies now."""
    without_files: list[int] = field(default_factory=list)
    """Jobs whose folder is in neither the backup nor ``DATA_DIR``."""
    unknown_folders: list[Path] = field(default_factory=list)
    """Of jobs that are younger than the backup."""


def check_backup(folder: Path) -> Manifest:
    """See that a backup is whole and can be read by this version. Cost: every byte of it is read.

    Raises:
        BackupDamaged: a file is missing, or is not the one that was written.
        ActionRefused: a newer version of Fovea made it.
    """
    manifest = _read_manifest(folder)
    for each in manifest.files:
        path = folder / each.path
        if not path.is_file():
            raise BackupDamaged(f"The backup {folder} lacks {each.path}.", hint="Use another backup.")
        if hashed(path) != (each.bytes, each.sha256):
            raise BackupDamaged(f"{each.path} in the backup {folder} has changed.", hint="Use another backup.")
    known = MigrationExecutor(connection).loader.disk_migrations.keys()
    unknown = [
        f"{app}.{name}" for app, names in manifest.migrations.items() for name in names if (app, name) not in known
    ]
    if unknown:
        raise ActionRefused(
            f"The backup {folder} was made by Fovea {manifest.fovea}, which is newer than this one"
            f" ({len(unknown)} unknown migrations, {unknown[0]}).",
            hint="Restore it with that version.",
        )
    if manifest.database == "sqlite":
        _check_sqlite(folder / SQLITE_FILE)
    return manifest


def restore(folder: Path, *, replace: bool = False, say: Say = log.info) -> Restored:
    """Make the database, and the files if they are in the backup, what they were.

    Args:
        folder: of the backup.
        replace: even where there are jobs: the present SQLite database and the present files are put aside.
        say: told what is done, a line each time.

    Raises:
        BackupDamaged: see ``check_backup``.
        ActionRefused: something runs, something is there, or the backup is of the other kind of database.
    """
    if (kind := _read_manifest(folder).database) != connection.vendor:
        raise ActionRefused(
            f"The backup {folder} is of a {kind} database, and DATABASE_URL names another kind.",
            hint="Let DATABASE_URL name one of the same kind.",
        )
    say("Checking the backup ...")
    manifest = check_backup(folder)
    if _has_tables():
        check_standstill()
    if not replace:
        _check_empty(manifest)
    restored = Restored(n_jobs=manifest.n_jobs)
    say("Restoring the database ...")
    if manifest.database == "sqlite":
        _restore_sqlite(folder, restored)
    else:
        _restore_postgres(folder, manifest)
    call_command("migrate", interactive=False, verbosity=0)
    if manifest.has_data:
        say("Restoring the files ...")
        _restore_data(folder, restored)
    _restore_secret(folder, restored)
    _compare_with_folders(restored)
    records.keep_all()
    return restored


def _read_manifest(folder: Path) -> Manifest:
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise BackupDamaged(f"{folder} is no backup: it has no {MANIFEST}.", hint="Name the folder of one.") from None
    except ValidationError:
        raise BackupDamaged(f"{folder / MANIFEST} cannot be read.", hint="Use another backup.") from None


def _check_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        try:
            found = database.execute("PRAGMA quick_check").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
    if found != "ok":
        raise BackupDamaged(f"The database {path} is damaged: {found}.", hint="Use another backup.")


def _has_tables() -> bool:
    with connection.cursor() as cursor:
        return Job._meta.db_table in connection.introspection.table_names(cursor)


def _check_empty(manifest: Manifest) -> None:
    hint = "Add --replace: what is there is put aside."
    if _has_tables() and (n_jobs := Job.objects.count()):
        raise ActionRefused(f"The database has {n_jobs:,} jobs.", hint=hint)
    folder = storage().jobs_dir
    if manifest.has_data and folder.is_dir() and any(folder.iterdir()):
        raise ActionRefused(f"{folder} is not empty.", hint=hint)


def _aside(path: Path, restored: Restored) -> None:
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    if path.exists():
        moved = path.with_name(f"{path.name}.before-restore-{datetime.now(UTC):%Y%m%d-%H%M%S}")
        path.rename(moved)
        restored.set_aside.append(moved)


def _restore_sqlite(folder: Path, restored: Restored) -> None:
    target = sqlite_path()
    if target.exists():
        # What is in its log only would not be moved along.
        with closing(sqlite3.connect(target)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    beside = target.with_name(f"{target.name}.tmp")
    shutil.copyfile(folder / SQLITE_FILE, beside)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    _aside(target, restored)
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    beside.replace(target)


def _restore_postgres(folder: Path, manifest: Manifest) -> None:
    """Tables are made by the migrations that the backup was made at, then filled.

    Raises:
        ActionRefused: the database is at a newer state than the backup, and no table is taken away here.
    """
    wanted = {(app, name) for app, names in manifest.migrations.items() for name in names}
    beyond = {(app, name) for app, names in applied_migrations().items() for name in names} - wanted
    if beyond:
        app, name = min(beyond)
        raise ActionRefused(
            f"The database is newer than the backup: it has the migration {app}.{name}.",
            hint="Let DATABASE_URL name a database without tables.",
        )
    executor = MigrationExecutor(connection)
    executor.migrate(_newest_of(wanted, executor))
    copy_in(manifest.tables, folder / TABLES_DIR)


def _newest_of(wanted: set[tuple[str, str]], executor: MigrationExecutor) -> list[tuple[str, str]]:
    """Those that no other wanted migration of the same app follows."""
    graph = executor.loader.graph
    followed = {parent.key for key in wanted for parent in graph.node_map[key].parents if parent.key[0] == key[0]}
    return sorted(wanted - followed)


def _restore_data(folder: Path, restored: Restored) -> None:
    source, target = Storage(folder), storage()
    for path in (target.jobs_dir, target.trash_dir, target.uploads_dir):
        _aside(path, restored)
    trashed = set(Job.objects.filter(trashed_at__isnull=False).values_list("pk", flat=True))
    for path in source.jobs_dir.iterdir() if source.jobs_dir.is_dir() else ():
        job_id = int(path.name)
        place = target.trashed(job_id) if job_id in trashed else target.job(job_id).path
        shutil.copytree(path, place)
    if source.uploads_dir.is_dir():
        shutil.copytree(source.uploads_dir, target.uploads_dir)
    os.sync()


def _restore_secret(folder: Path, restored: Restored) -> None:
    if (folder / SECRET_FILE).is_file():
        target = storage().root / SECRET_FILE
        _aside(target, restored)
        shutil.copyfile(folder / SECRET_FILE, target)
        target.chmod(0o600)


def _compare_with_folders(restored: Restored) -> None:
    """No job of the future gets the number of a folder that is there."""
    places = storage()
    known = set(Job.objects.values_list("pk", flat=True))
    restored.without_files = sorted(
        job_id for job_id in known if not places.job(job_id).path.is_dir() and not places.trashed(job_id).is_dir()
    )
    folders = [path for parent in (places.jobs_dir, places.trash_dir) if parent.is_dir() for path in parent.iterdir()]
    numbered = {path: int(path.name) for path in folders if path.name.isdecimal()}
    restored.unknown_folders = sorted(path for path, job_id in numbered.items() if job_id not in known)
    reserve_ids(Job, max(numbered.values(), default=0))
