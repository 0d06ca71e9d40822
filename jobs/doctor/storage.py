from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from jobs.backup import newest_backup
from jobs.doctor.finding import Finding, ok, problem, warning
from jobs.models import Job
from jobs.room import GIB
from jobs.sizes import size_text
from jobs.states import ENDED
from jobs.storage import storage

SLOW_FSYNC_S = 0.25
FEW_INODES = 20_000
BACKUP_IS_OLD_AFTER = timedelta(days=7)


def writable() -> Iterator[Finding]:
    """By writing: a file made, brought to the disk, renamed and removed, as every checkpoint is."""
    yield _tried("storage.writable", "DATA_DIR", Path(settings.DATA_DIR))


def cache() -> Iterator[Finding]:
    """It may be deleted at any time."""
    folder = Path(settings.CACHE_DIR)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    yield _tried("storage.cache", "CACHE_DIR", folder)


def _tried(name: str, setting: str, folder: Path) -> Finding:
    try:
        took_s = _write_and_sync(folder)
    except OSError as error:
        return problem(
            name,
            f"{setting} {folder} cannot be written: {error.strerror}.",
            "Give the folder to the user that Fovea runs as, or free some space.",
        )
    if took_s > SLOW_FSYNC_S:
        return warning(
            name,
            f"{setting} {folder} takes {took_s * 1000:.0f} ms to bring one small file to the disk.",
            "Checkpoints and transitions wait for that. Use a local disk if this one is a network's.",
        )
    return ok(name, f"{setting} {folder} can be written, and takes {took_s * 1000:.0f} ms to be durable.")


def _probe(folder: Path) -> Path:
    """Each look has a file of its own: two requests may look at once."""
    return folder / f".doctor-{secrets.token_hex(4)}"


def _write_and_sync(folder: Path) -> float:
    probe = _probe(folder)
    moved = folder / f"{probe.name}.moved"
    began_s = time.monotonic()
    try:
        with probe.open("wb") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
        probe.replace(moved)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    finally:
        for path in (probe, moved):
            with suppress(OSError):
                path.unlink(missing_ok=True)
    return time.monotonic() - began_s


def room() -> Iterator[Finding]:
    name = "storage.room"
    root = storage().root
    usage = shutil.disk_usage(root)
    reserve_bytes = round(settings.DISK_RESERVE_GIB * GIB)
    free = f"{size_text(usage.free)} of {size_text(usage.total)} are free for DATA_DIR"
    if usage.free < reserve_bytes:
        yield problem(
            name,
            f"{free}, less than the {size_text(reserve_bytes)} that DISK_RESERVE_GIB keeps.",
            "Nothing new is taken in. Delete runs or datasets and empty the trash, or use a larger disk.",
        )
    elif usage.free < 2 * reserve_bytes:
        yield warning(
            name,
            f"{free}; below {size_text(reserve_bytes)} nothing new is taken in.",
            "Delete what is not needed, and empty the trash.",
        )
    else:
        yield ok(name, f"{free}.")
    inodes = os.statvfs(root)
    if inodes.f_files and inodes.f_favail < FEW_INODES:
        yield warning(
            name, f"The disk takes {inodes.f_favail:,} more files.", "Remove many small files, or use another disk."
        )


def folders() -> Iterator[Finding]:
    """Deleting is a rename, which works within one file system alone."""
    name = "storage.folders"
    places = storage()
    present = [path for path in (places.root, places.jobs_dir, places.trash_dir) if path.is_dir()]
    if len({path.stat().st_dev for path in present}) > 1:
        yield problem(
            name,
            f"{', '.join(map(str, present))} are not on the same file system.",
            "Mount DATA_DIR as a whole: what is deleted cannot be moved to the trash.",
        )
    else:
        yield ok(name, "Jobs and trash are on one file system.")


def locks() -> Iterator[Finding]:
    """A trainer holds a lock, by which a second one is kept away."""
    name = "storage.locks"
    path = _probe(storage().root)
    try:
        with path.open("wb") as first, path.open("wb") as second:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield ok(name, "Locks keep a second process away from a job.")
                return
    except OSError as error:
        yield problem(name, f"Files cannot be locked: {error.strerror}.", "Use a file system with locks, or NFS 4.")
        return
    finally:
        path.unlink(missing_ok=True)
    yield problem(name, "Two processes can hold one lock.", "Use a file system with locks, or NFS 4.")


def backups() -> Iterator[Finding]:
    name = "storage.backups"
    newest = newest_backup()
    step = "Run manage.py backup --to a folder on another disk, every day."
    if newest is None:
        if Job.objects.filter(status__in=ENDED).exists():
            yield warning(name, "There is no backup.", step)
        else:
            yield ok(name, "There is nothing to back up yet.")
        return
    age = timezone.now() - newest.made_at
    what = "with all files" if newest.has_data else "of the database alone"
    said = f"The last backup, {what}, was made {_ago(age)} in {newest.path}"
    if age > BACKUP_IS_OLD_AFTER:
        yield warning(name, f"{said}.", step)
    else:
        yield ok(name, f"{said}.")


def _ago(age: timedelta) -> str:
    if age < timedelta(hours=1):
        return "less than an hour ago"
    if age < timedelta(days=2):
        return f"{round(age.total_seconds() / 3600)} hours ago"
    return f"{age.days} days ago"
