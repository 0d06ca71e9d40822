"""Backups of a server that works, and the way back: on SQLite here, on PostgreSQL where the tests run on it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from io import StringIO
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from jobs import backup, backup_files, restore, services, transitions
from jobs.database import stay_in_transaction
from jobs.models import Artifact, Job
from jobs.process import is_locked
from jobs.states import Status
from jobs.storage import storage
from tests.jobs.test_rebuild import everything
from wire.errors import ActionRefused, BackupDamaged, DiskFull
from wire.events import ENVELOPE, ArtifactDropped, ArtifactMade, Envelope
from wire.layout import JobDir

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(make_job, user):
    """A job with files, as far as a backup is concerned."""
    job = make_job(status=Status.FAILED)
    folder = storage().job(job.pk)
    (folder.checkpoints_dir).mkdir(parents=True)
    (folder.checkpoints_dir / "step-5.pt").write_bytes(b"weights")
    Artifact.objects.create(
        made_by=job, kind="checkpoint", name="step-5", path="artifacts/checkpoints/step-5.pt", sha256="a", bytes=7
    )
    for name in ("lock", "record.json.tmp", ".record.1.1"):
        (folder.path / name).write_text("means nothing later")
    return job


def test_what_was_backed_up_comes_back(database, job, make_job, user, tmp_path):
    places = storage()
    places.upload_path("ab").parent.mkdir()
    places.upload_path("ab").write_bytes(b"zip")
    services.jobs_delete(user, [make_job(status=Status.FAILED).pk])
    before = everything()
    made = backup.back_up(tmp_path, with_data=True)
    later = make_job()
    services.job_rename(user, job.pk, "renamed since")
    shutil.rmtree(places.job(job.pk).checkpoints_dir)
    (made / "jobs" / "lost+found").mkdir()
    (made / "jobs" / "lost+found" / "what").write_text("no manifest names it")

    restored = restore.restore(made, replace=True)

    assert everything() == before
    assert (places.job(job.pk).checkpoints_dir / "step-5.pt").read_bytes() == b"weights"
    assert places.upload_path("ab").read_bytes() == b"zip"
    assert present_jobs(restored.set_aside[0]) == 3
    assert sorted(path.name for path in places.jobs_dir.iterdir()) == [str(job.pk)]
    assert sorted(path.name for path in places.trash_dir.iterdir()) == [str(job.pk + 1)]
    assert sorted(path.name for path in places.job(job.pk).path.iterdir()) == ["artifacts", "record.json"]
    assert (restored.without_files, restored.unknown_folders) == ([], [])
    kept = [path for path in restored.set_aside if path.name.startswith("jobs.")]
    assert [path.name for path in kept[0].iterdir() if path.name == str(later.pk)] == [str(later.pk)]
    # Ids go on where they were.
    assert make_job().pk == later.pk


def present_jobs(set_aside):
    """How many there were in the database that was put aside, or copied first."""
    if connection.vendor == "postgresql":
        return restore.check_backup(set_aside).n_jobs
    with closing(sqlite3.connect(set_aside)) as before:
        return before.execute("SELECT COUNT(*) FROM jobs_job").fetchone()[0]


def test_without_the_data_folders_of_later_jobs_keep_their_numbers(database, job, make_job, tmp_path):
    made = backup.back_up(tmp_path)
    later = make_job()
    shutil.rmtree(storage().job(job.pk).path)

    restored = restore.restore(made, replace=True)

    assert restored.without_files == [job.pk]
    assert restored.unknown_folders == [storage().job(later.pk).path]
    assert make_job().pk == later.pk + 1


def test_a_backup_is_of_one_moment_whatever_is_written_meanwhile(database, make_job, user, tmp_path):
    """Each transaction makes a job and its first transition; a backup between the two would have one without."""
    ended = threading.Event()

    def write():
        while not ended.wait(0.001):
            make_job(status=Status.FAILED)
        connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [backup.back_up(tmp_path, name=str(n)) for n in range(3)]
    finally:
        ended.set()
        writer.join()

    restore.restore(made[-1], replace=True)

    assert Job.objects.exists()
    assert Job.objects.count() == sum(1 for job in Job.objects.all() if job.transitions.count() == 1)


def test_a_changed_or_missing_file_is_found(job, tmp_path):
    made = backup.back_up(tmp_path, with_data=True)
    restore.check_backup(made)
    checkpoint = made / "jobs" / str(job.pk) / "artifacts" / "checkpoints" / "step-5.pt"
    checkpoint.write_bytes(b"wEights")

    with pytest.raises(BackupDamaged, match=r"step-5\.pt in the backup .* has changed"):
        restore.restore(made, replace=True)
    checkpoint.unlink()
    with pytest.raises(BackupDamaged, match=r"lacks .*step-5\.pt"):
        restore.check_backup(made)
    assert Job.objects.get() == job


def changed(made, **columns):
    """A backup whose manifest says something else."""
    manifest = json.loads((made / backup.MANIFEST).read_text())
    (made / backup.MANIFEST).write_text(json.dumps({**manifest, **columns}))
    return made


@pytest.mark.parametrize("name", ["jobs/old/spec.json", "jobs/007/spec.json", "jobs/1/../../x", "/etc/hosts", "notes"])
def test_what_belongs_into_no_backup_is_refused_before_anything_is_changed(job, tmp_path, name):
    made = backup.back_up(tmp_path)
    files = json.loads((made / backup.MANIFEST).read_text())["files"]
    changed(made, files=[*files, {"path": name, "bytes": 0, "sha256": ""}])

    with pytest.raises(BackupDamaged, match=f"names {name}, which is in no backup"):
        restore.restore(made, replace=True)
    assert Job.objects.get() == job


def test_a_backup_without_its_database_is_none(job, tmp_path):
    made = changed(backup.back_up(tmp_path), files=[])

    with pytest.raises(BackupDamaged, match=r"does not name (database\.sqlite3|tables/)"):
        restore.check_backup(made)


def test_nobody_tidies_a_backup_away_that_is_being_made(job, monkeypatch):
    seen = []

    def while_it_is_made():
        (folder,) = storage().backups_dir.glob(f"*{backup.UNFINISHED}")
        seen.append(is_locked(folder / backup.LOCK))
        return 1

    monkeypatch.setattr(backup, "n_jobs", while_it_is_made)
    made = backup.back_up(storage().backups_dir)

    assert seen == [True]
    assert not (made / backup.LOCK).exists()


def test_a_file_that_vanishes_from_a_backup_is_not_said_to_be_in_it(job, tmp_path, monkeypatch):
    def overtaken(source, target):
        copied = backup_files.copy_job(source, target)
        target.record_path.unlink()
        return copied

    monkeypatch.setattr(backup, "copy_job", overtaken)
    with pytest.raises(FileNotFoundError):
        backup.back_up(tmp_path, with_data=True)
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_copied_of_a_job_is_said(job, tmp_path):
    write_events(storage().job(job.pk), made("gone"))

    folder = backup.back_up(tmp_path, with_data=True)

    said = StringIO()
    call_command("restore", "--from", folder, "--check", stdout=said)
    assert f"Not everything is in it that jobs {job.pk} announced." in said.getvalue()


def test_holes_are_no_room_that_a_backup_takes(job, tmp_path, monkeypatch):
    log = storage().job(job.pk).attempt(1).log_path
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.write(b"first")
        file.seek(2**26)
        file.write(b"last")
        file.truncate(2**27)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: shutil._ntuple_diskusage(2**26, 0, 2**26))

    folder = backup.back_up(tmp_path, with_data=True)

    copy = JobDir(folder / "jobs" / str(job.pk)).attempt(1).log_path
    assert backup_files.hashed(copy) == backup_files.hashed(log)
    assert copy.stat().st_blocks * 512 < 2**20


def test_a_copy_may_take_longer_than_a_transaction_may_idle(monkeypatch):
    asked = MagicMock(vendor="postgresql")
    monkeypatch.setattr("jobs.database.connection", asked)

    stay_in_transaction()

    cursor = asked.cursor.return_value.__enter__.return_value
    cursor.execute.assert_called_once_with("SET LOCAL idle_in_transaction_session_timeout = 0")


def test_a_folder_that_was_not_finished_is_no_backup(job, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_write_durable", full)
    with pytest.raises(OSError, match="No space"):
        backup.back_up(tmp_path)

    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BackupDamaged, match=r"it has no manifest\.json"):
        restore.check_backup(tmp_path)


def test_no_backup_is_begun_that_would_not_fit(job, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _path: shutil._ntuple_diskusage(10, 10, 0))

    with pytest.raises(DiskFull, match="of room are missing"):
        backup.back_up(tmp_path / "new")

    assert list((tmp_path / "new").iterdir()) == []


def test_a_backup_of_a_newer_version_is_refused(job, tmp_path):
    made = backup.back_up(tmp_path)
    manifest = json.loads((made / backup.MANIFEST).read_text())
    manifest["migrations"]["jobs"].append("0099_of_tomorrow")
    (made / backup.MANIFEST).write_text(json.dumps(manifest))

    with pytest.raises(ActionRefused, match=r"newer than this one \(1 unknown migrations, jobs\.0099_of_tomorrow\)"):
        restore.check_backup(made)


def test_nothing_is_written_over_unasked(job, tmp_path):
    made = backup.back_up(tmp_path)

    with pytest.raises(ActionRefused, match="has 1 jobs"):
        restore.restore(made)


def test_the_secret_is_in_it_only_where_it_was_asked_for(job, tmp_path, monkeypatch):
    """Nobody else may read it at any moment: it is made so, and not changed afterwards."""
    monkeypatch.delattr(Path, "chmod")
    monkeypatch.delattr(os, "chmod")
    secret = storage().root / backup.SECRET_FILE
    secret.write_text("hush")
    try:
        without, with_it = (backup.back_up(tmp_path, name=str(n), with_secret=bool(n)) for n in range(2))
    finally:
        secret.unlink()

    assert not (without / backup.SECRET_FILE).exists()
    assert (with_it / backup.SECRET_FILE).read_text() == "hush"
    assert ((with_it / backup.SECRET_FILE).stat().st_mode & 0o777, with_it.stat().st_mode & 0o777) == (0o600, 0o700)


def made(name):
    return ArtifactMade(artifact="checkpoint", name=name, path=f"artifacts/{name}", sha256="a" * 64, bytes=1)


def write_events(folder, *events):
    lines = [Envelope(seq=n, at="2026-01-01T00:00:00Z", event=event) for n, event in enumerate(events, 1)]
    folder.events_path.write_bytes(b"".join(ENVELOPE.dump_json(line) + b"\n" for line in lines))


def test_a_checkpoint_that_is_dropped_while_it_is_copied_is_not_announced_in_the_copy(tmp_path, monkeypatch):
    source, target = JobDir(tmp_path / "job"), JobDir(tmp_path / "copy")
    source.artifacts_dir.mkdir(parents=True)
    (source.artifacts_dir / "old").write_bytes(b"1")
    write_events(source, made("old"))
    copy_tree, rounds = backup_files.copy_tree, []

    def overtaken(*arguments, **more):
        if not rounds:
            (source.artifacts_dir / "old").unlink()
            (source.artifacts_dir / "new").write_bytes(b"2")
            write_events(source, made("old"), made("new"), ArtifactDropped(name="old", reason="newer"))
        rounds.append(True)
        return copy_tree(*arguments, **more)

    monkeypatch.setattr(backup_files, "copy_tree", overtaken)
    backup_files.copy_job(source, target)

    assert len(rounds) == 2
    assert target.events_path.read_bytes() == source.events_path.read_bytes()
    assert [path.name for path in target.artifacts_dir.iterdir()] == ["new"]


def test_before_a_migration_the_database_is_copied_and_three_such_copies_are_kept(database, make_job, monkeypatch):
    assert backup.back_up_before_migrating() is None
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_: ["something"])
    for n in range(5):
        (storage().backups_dir / f"{backup.BEFORE_MIGRATION}2025010{n}-000000").mkdir(parents=True)
    make_job()

    copied = backup.back_up_before_migrating()

    assert restore.check_backup(copied).n_jobs == 1
    kept = sorted(path.name for path in storage().backups_dir.iterdir() if path.is_dir())
    assert (len(kept), kept[-1]) == (backup.KEPT_BEFORE_MIGRATION, copied.name)
    assert backup.newest_backup().path == str(copied)


class NotingUmask:
    def __call__(self, *arguments, **more):
        self.seen = os.umask(0o077)
        return restore.restore(*arguments, **more)


def test_the_commands_say_what_they_did(database, job, tmp_path, monkeypatch):
    said = StringIO()
    call_command("backup", to=tmp_path, stdout=said, stderr=StringIO())
    folder = said.getvalue().strip()
    said = StringIO()
    call_command("restore", "--from", folder, "--check", stdout=said)
    assert "with 1 jobs" in said.getvalue()
    assert "the database alone" in said.getvalue()
    with pytest.raises(CommandError, match="Add --replace"):
        call_command("restore", "--from", folder)
    said = StringIO()
    monkeypatch.setattr("jobs.management.commands.restore.restore", noting_umask := NotingUmask())
    call_command("restore", "--from", folder, "--replace", stdout=said, stderr=StringIO())
    assert noting_umask.seen == 0o077
    assert "Restored 1 jobs." in said.getvalue()
    transitions.announce(Job.objects.get().pk)


def test_a_backup_is_not_restored_into_the_other_kind_of_database(job, tmp_path):
    folder = backup.back_up(tmp_path)
    changed(folder, database="sqlite" if connection.vendor == "postgresql" else "postgresql")

    with pytest.raises(ActionRefused, match="DATABASE_URL names another kind"):
        restore.restore(folder, replace=True)
