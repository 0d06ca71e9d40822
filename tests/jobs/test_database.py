"""What errors of the two databases mean, told from the real ones."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connection

from jobs.database import MOST_REPEATS, Trouble, atomically, trouble_of
from jobs.models import Job


def caused(kind, cause):
    error = kind(str(cause))
    error.__cause__ = cause
    return error


def of_sqlite(statements, tmp_path, **options):
    """The error with which SQLite answers the last statement."""
    with sqlite3.connect(tmp_path / "db", timeout=0, **options) as database:
        try:
            for statement in statements:
                database.execute(statement)
        except sqlite3.Error as error:
            return caused(OperationalError, error)
        finally:
            database.rollback()
    raise AssertionError("nothing went wrong")


def test_a_full_disk_under_sqlite(tmp_path):
    filled = ["CREATE TABLE t (x)", "PRAGMA max_page_count = 3", "INSERT INTO t VALUES (zeroblob(100000))"]
    assert trouble_of(of_sqlite(filled, tmp_path)) is Trouble.FULL


def test_a_writer_that_keeps_sqlite_busy(tmp_path):
    with sqlite3.connect(tmp_path / "db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert trouble_of(of_sqlite(["BEGIN IMMEDIATE"], tmp_path)) is Trouble.BUSY
        other.execute("ROLLBACK")


def test_a_wrong_statement_is_no_trouble_of_the_database(tmp_path):
    assert trouble_of(of_sqlite(["SELECT x FROM nowhere"], tmp_path)) is None


@pytest.mark.parametrize(
    ("cause", "trouble"),
    [
        (psycopg.errors.SerializationFailure(), Trouble.CONFLICT),
        (psycopg.errors.DeadlockDetected(), Trouble.CONFLICT),
        (psycopg.errors.AdminShutdown(), Trouble.AWAY),
        (psycopg.errors.CannotConnectNow(), Trouble.AWAY),
        (psycopg.errors.TooManyConnections(), Trouble.CROWDED),
        (psycopg.errors.DiskFull(), Trouble.FULL),
        (psycopg.errors.LockNotAvailable(), Trouble.BUSY),
        (psycopg.OperationalError("server closed the connection unexpectedly"), Trouble.AWAY),
        (psycopg.OperationalError("FATAL:  sorry, too many clients already"), Trouble.CROWDED),
        (psycopg.OperationalError("remaining connection slots are reserved for"), Trouble.CROWDED),
    ],
)
def test_words_of_postgresql(cause, trouble):
    assert trouble_of(caused(OperationalError, cause)) is trouble


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (caused(InterfaceError, psycopg.InterfaceError("the connection is closed")), Trouble.AWAY),
        (caused(IntegrityError, psycopg.errors.UniqueViolation()), None),
        (caused(DataError, psycopg.errors.NumericValueOutOfRange()), None),
        (ValueError("x"), None),
        (None, None),
    ],
)
def test_others(error, trouble):
    assert trouble_of(error) is trouble


class Conflicts:
    """Lets a transaction fail so often, after it has written."""

    def __init__(self, n_failures, job):
        self.n_failures = n_failures
        self.job = job
        self.n_calls = 0

    def __call__(self):
        self.n_calls += 1
        Job.objects.filter(pk=self.job.pk).update(notes=f"try {self.n_calls}")
        if self.n_calls <= self.n_failures:
            raise caused(OperationalError, psycopg.errors.DeadlockDetected())
        return "done"


@pytest.fixture
def conflicts(make_job):
    def make(n_failures):
        found = Conflicts(n_failures, make_job())
        found.__name__ = "conflicts"
        return found

    return make


@pytest.mark.django_db(transaction=True)
def test_a_conflict_is_tried_again_but_not_for_ever(conflicts):
    passing = conflicts(MOST_REPEATS)
    assert atomically(passing)() == "done"
    assert Job.objects.get(pk=passing.job.pk).notes == f"try {MOST_REPEATS + 1}"
    lasting = conflicts(MOST_REPEATS + 1)
    with pytest.raises(OperationalError):
        atomically(lasting)()
    assert (lasting.n_calls, Job.objects.get(pk=lasting.job.pk).notes) == (MOST_REPEATS + 1, "")


@pytest.mark.django_db
def test_inside_a_transaction_it_is_not_tried_again(conflicts):
    assert connection.in_atomic_block
    once = conflicts(1)
    with pytest.raises(OperationalError):
        atomically(once)()
    assert (once.n_calls, Job.objects.get(pk=once.job.pk).notes) == (1, "")
