"""The way back where the present database cannot be read, or not be copied."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from jobs import backup, restore
from jobs.models import Job
from jobs.standstill import check_no_agent
from wire.errors import ActionRefused

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_damaged_database_is_put_aside(database, make_job, tmp_path, monkeypatch):
    """Of a server nothing is put aside: there it is refused."""
    job = make_job()
    made = backup.back_up(tmp_path)
    if connection.vendor == "postgresql":
        monkeypatch.setattr(restore, "n_jobs", refuse)
        with pytest.raises(CommandError, match=r"cannot be read: gone\. End what works on it"):
            call_command("restore", "--from", made, "--replace", stderr=StringIO())
        return
    connection.close()
    path = backup.sqlite_path()
    path.write_bytes(b"no database" * 1000)
    path.with_name(path.name + "-wal").write_bytes(b"its log")
    with pytest.raises(CommandError, match=r"is damaged: file is not a database\. Add --replace"):
        call_command("restore", "--from", made, stderr=StringIO())
    connection.close()

    (aside,) = restore.restore(made, replace=True).set_aside

    assert aside.read_bytes() == b"no database" * 1000
    assert aside.with_name(aside.name + "-wal").read_bytes() == b"its log"
    assert Job.objects.get() == job


def refuse(*_, **_more):
    raise DatabaseError("gone\nfor now")


def test_a_database_that_cannot_be_copied_first_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(restore, "back_up", refuse)

    with pytest.raises(ActionRefused, match="cannot be copied first: gone"):
        restore._copied_first()


def test_a_half_applied_migration_hides_no_agent(db):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_device DROP COLUMN drained_reason")
        check_no_agent()
        transaction.set_rollback(True)


def test_no_trace_of_the_program_is_shown(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="Not a directory"):
        call_command("restore", "--from", tmp_path / "file")
    monkeypatch.setattr("jobs.management.commands.rebuild.rebuild", refuse)
    with pytest.raises(CommandError, match="Move it away"):
        call_command("rebuild")
