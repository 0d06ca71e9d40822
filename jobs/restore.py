"""The way back from ``jobs.backup``. What is there is put aside, and where it cannot be, copied first.

It has to work where the present database does not: nothing is read of that but whether it may be replaced.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from django.core.management import call_command
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from pydantic import ValidationError

from jobs import records
from jobs.backup import (
    MANIFEST,
    SECRET_FILE,
    SQLITE_FILE,
    TABLES_DIR,
    Manifest,
    applied_migrations,
    back_up,
    n_jobs,
    sqlite_path,
)
from jobs.backup_files import copy_file, copy_secret, hashed
from jobs.database import Trouble, trouble_of
from jobs.loose_ends import close_left_open
from jobs.models import Device, Job
from jobs.row_ids import reserve_ids
from jobs.standstill import check_no_agent, check_no_process
from jobs.storage import storage
from jobs.table_copies import copy_in
from wire.errors import ActionRefused, BackupDamaged, DiskFull

OTHER: Final = "Use another backup."
ADD_REPLACE: Final = "Add --replace: what is there is put aside, or copied first."

log = logging.getLogger(__name__)
Say = Callable[[str], object]


@dataclass(slots=True)
class Restored:
    n_jobs: int
    set_aside: list[Path] = field(default_factory=list)
    """Where that which was there before lies now: as it was, or as a backup."""
    without_files: list[int] = field(default_factory=list)
    """Jobs whose folder is in neither the backup nor ``DATA_DIR``."""
    unknown_folders: list[Path] = field(default_factory=list)
    """Of jobs that are younger than the backup."""


def check_backup(folder: Path) -> Manifest:
    """See that a backup is whole and can be read by this version. Cost: every byte of it is read.

    Raises:
        BackupDamaged: a file is missing, is not the one that was written, or belongs into no backup.
        ActionRefused: a newer version of Fovea made it.
    """
    manifest = _read_manifest(folder)
    _check_names(folder, manifest)
    for each in manifest.files:
        path = folder / each.path
        if not path.is_file():
            raise BackupDamaged(f"The backup {folder} lacks {each.path}.", hint=OTHER)
        if hashed(path) != (each.bytes, each.sha256):
            raise BackupDamaged(f"{each.path} in the backup {folder} has changed.", hint=OTHER)
    known = MigrationLoader(None).disk_migrations.keys()
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
        replace: even where there are jobs: a present SQLite database and the present files are put aside, of a
            PostgreSQL database a backup is made first.
        say: told what is done, a line each time.

    Raises:
        BackupDamaged: see ``check_backup``.
        ActionRefused: something runs, something is there, or the backup is of the other kind of database; what is
            there cannot be read, or not be copied first.
    """
    if (kind := _read_manifest(folder).database) != connection.vendor:
        raise ActionRefused(
            f"The backup {folder} is of a {kind} database, and DATABASE_URL names another kind.",
            hint="Let DATABASE_URL name one of the same kind.",
        )
    say("Checking the backup ...")
    manifest = check_backup(folder)
    check_no_process()
    _check_database(replace=replace)
    if manifest.has_data and not replace:
        _check_no_jobs_dir()
    restored = Restored(n_jobs=manifest.n_jobs)
    say("Restoring the database ...")
    if manifest.database == "sqlite":
        _restore_sqlite(folder, restored)
    else:
        _restore_postgres(folder, manifest, restored)
    call_command("migrate", interactive=False, verbosity=0)
    if manifest.has_data:
        say("Restoring the files ...")
        _restore_data(folder, manifest, restored)
    if SECRET_FILE in (each.path for each in manifest.files):
        _restore_secret(folder, restored)
    _compare_with_folders(restored)
    close_left_open(Job.objects.all())
    records.keep_all()
    return restored


def _read_manifest(folder: Path) -> Manifest:
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise BackupDamaged(f"{folder} is no backup: it has no {MANIFEST}.", hint="Name the folder of one.") from None
    except ValidationError:
        raise BackupDamaged(f"{folder / MANIFEST} cannot be read.", hint=OTHER) from None


def _check_names(folder: Path, manifest: Manifest) -> None:
    """That it has its database, and no file that would be restored to nowhere."""
    is_sqlite = manifest.database == "sqlite"
    wanted = {SQLITE_FILE} if is_sqlite else {f"{TABLES_DIR}/{table.file_name}" for table in manifest.tables}
    listed = {each.path for each in manifest.files}
    if not wanted or not wanted <= listed:
        missing = min(wanted - listed, default=TABLES_DIR)
        raise BackupDamaged(f"The manifest of {folder} does not name {missing}.", hint=OTHER)
    for path in sorted(listed - wanted):
        if not _is_name(PurePosixPath(path).parts):
            raise BackupDamaged(f"The manifest of {folder} names {path}, which is in no backup.", hint=OTHER)


def _is_name(parts: tuple[str, ...]) -> bool:
    match parts:
        case ("jobs", job_id, _, *_):
            return job_id.isdecimal() and job_id == str(int(job_id)) and ".." not in parts
        case ("uploads", _, *_):
            return ".." not in parts
        case _:
            return parts == (SECRET_FILE,)


def _check_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        try:
            found = database.execute("PRAGMA quick_check").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
    if found != "ok":
        raise BackupDamaged(f"The database {path} is damaged: {found}.", hint=OTHER)


def _check_database(*, replace: bool) -> None:
    try:
        if Device._meta.db_table in _tables():
            check_no_agent()
        n_present = n_jobs()
    except Error as error:
        _check_damage(error, replace=replace)
        return
    if n_present and not replace:
        raise ActionRefused(f"The database has {n_present:,} jobs.", hint=ADD_REPLACE)


def _tables() -> list[str]:
    with connection.cursor() as cursor:
        return connection.introspection.table_names(cursor)


def _check_damage(error: Error, *, replace: bool) -> None:
    """A file that cannot be read can still be put aside; a server that does not answer cannot."""
    if connection.vendor != "sqlite" or trouble_of(error) is Trouble.BUSY:
        raise ActionRefused(
            f"The present database cannot be read: {_said(error)}.",
            hint="End what works on it, or let DATABASE_URL name an empty one.",
        ) from None
    if not replace:
        raise ActionRefused(f"The database {sqlite_path()} is damaged: {_said(error)}.", hint=ADD_REPLACE) from None


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _check_no_jobs_dir() -> None:
    folder = storage().jobs_dir
    if folder.is_dir() and any(folder.iterdir()):
        raise ActionRefused(f"{folder} is not empty.", hint=ADD_REPLACE)


def _now() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _aside(path: Path, restored: Restored) -> Path:
    """Gives the name that it has then, or would have."""
    moved = path.with_name(f"{path.name}.before-restore-{_now()}")
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    if path.exists():
        path.rename(moved)
        restored.set_aside.append(moved)
    return moved


def _restore_sqlite(folder: Path, restored: Restored) -> None:
    target = sqlite_path()
    connection.close()
    beside = target.with_name(f"{target.name}.tmp")
    shutil.copyfile(folder / SQLITE_FILE, beside)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    moved = _aside(target, restored)
    # Under the names by which SQLite finds them: they may hold what the file does not.
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            target.with_name(target.name + suffix).rename(moved.with_name(moved.name + suffix))
    beside.replace(target)


def _restore_postgres(folder: Path, manifest: Manifest, restored: Restored) -> None:
    """Tables are made by the migrations that the backup was made at, then emptied and filled.

    Raises:
        ActionRefused: the database is at a newer state than the backup, and no table is taken away here; or what it
            holds could not be copied first.
    """
    wanted = {(app, name) for app, names in manifest.migrations.items() for name in names}
    beyond = {(app, name) for app, names in applied_migrations().items() for name in names} - wanted
    if beyond:
        app, name = min(beyond)
        raise ActionRefused(
            f"The database is newer than the backup: it has the migration {app}.{name}.",
            hint="Let DATABASE_URL name a database without tables.",
        )
    if _tables():
        restored.set_aside.append(_copied_first())
    executor = MigrationExecutor(connection)
    executor.migrate(_newest_of(wanted, executor))
    copy_in(manifest.tables, folder / TABLES_DIR)


def _copied_first() -> Path:
    try:
        return back_up(storage().backups_dir, name=f"before-restore-{_now()}")
    except (Error, OSError, DiskFull) as error:
        raise ActionRefused(
            f"The present database cannot be copied first: {_said(error)}.",
            hint="Mend that, or let DATABASE_URL name an empty one.",
        ) from None


def _newest_of(wanted: set[tuple[str, str]], executor: MigrationExecutor) -> list[tuple[str, str]]:
    """Those that no other wanted migration of the same app follows."""
    graph = executor.loader.graph
    followed = {parent.key for key in wanted for parent in graph.node_map[key].parents if parent.key[0] == key[0]}
    return sorted(wanted - followed)


def _restore_data(folder: Path, manifest: Manifest, restored: Restored) -> None:
    """What the manifest names: that alone was checked."""
    target = storage()
    for path in (target.jobs_dir, target.trash_dir, target.uploads_dir):
        _aside(path, restored)
    trashed = set(Job.objects.filter(trashed_at__isnull=False).values_list("pk", flat=True))
    for each in manifest.files:
        match PurePosixPath(each.path).parts:
            case ("jobs", job_id, *inner):
                place = target.trashed(int(job_id)) if int(job_id) in trashed else target.job(int(job_id)).path
                copy_file(folder / each.path, place.joinpath(*inner))
            case ("uploads", *inner):
                copy_file(folder / each.path, target.uploads_dir.joinpath(*inner))
            case _:
                pass
    os.sync()


def _restore_secret(folder: Path, restored: Restored) -> None:
    target = storage().root / SECRET_FILE
    _aside(target, restored)
    copy_secret(folder / SECRET_FILE, target)


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
