"""After a restore or a rebuild nothing runs: what was at work goes on, on whichever host."""

from __future__ import annotations

import pytest

from jobs import backup, loose_ends, restore, transitions
from jobs.models import Attempt, Job
from jobs.process import locked
from jobs.rebuild import bring_back_missing, rebuild
from jobs.states import Status
from jobs.storage import storage
from tests.jobs.test_rebuild import lose_the_database
from wire.events import ENVELOPE, Envelope, Notice
from wire.specs import ExitReport

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def at_work(make_job):
    """A job whose first attempt runs on another host, as far as its rows say."""
    job = make_job(status=Status.RUNNING)
    Attempt.objects.create(job=job, n=1, fence=1, host="elsewhere")
    storage().job(job.pk).attempt(1).path.mkdir(parents=True)
    transitions.announce(job.pk)
    return job


def begun(job, n):
    """What an attempt leaves that the database does not know."""
    folder = storage().job(job.pk).attempt(n)
    folder.path.mkdir(parents=True)
    return folder


def attempts(job):
    return [(one.n, one.reason.partition(":")[0]) for one in job.attempts.exclude(ended_at=None).order_by("n")]


def test_what_ran_when_the_backup_was_made_is_queued_again(database, at_work, tmp_path):
    made = backup.back_up(tmp_path)

    restore.restore(made, replace=True)

    job = Job.objects.get()
    assert (job.status, attempts(job)) == (Status.QUEUED, [(1, "lost")])


def test_what_a_job_said_since_the_backup_is_heard(at_work):
    """The attempt after the one that is known came to an end."""
    begun(at_work, 2).exit_path.write_text(ExitReport(outcome="succeeded").model_dump_json())
    event = Envelope(seq=1, at="2026-01-01T00:00:00Z", event=Notice(level="info", code="x", text="x"))
    storage().job(at_work.pk).events_path.write_bytes(ENVELOPE.dump_json(event) + b"\n")

    loose_ends.close_left_open(Job.objects.all())

    job = Job.objects.get()
    assert (job.status, job.last_seq) == (Status.SUCCEEDED, 1)
    assert attempts(job) == [(1, "lost"), (2, "succeeded")]


@pytest.mark.parametrize("way", [rebuild, bring_back_missing])
def test_an_open_attempt_that_a_later_one_followed_is_closed_too(at_work, way):
    begun(at_work, 2)
    lose_the_database()

    way()

    job = Job.objects.get()
    assert (job.status, attempts(job)) == (Status.QUEUED, [(1, "lost"), (2, "lost")])


def test_whoever_holds_its_folder_keeps_it(at_work):
    with locked(storage().job(at_work.pk).lock_path):
        loose_ends.close_left_open(Job.objects.all())

    assert Job.objects.get().status == Status.RUNNING


def test_one_that_cannot_be_closed_is_in_nobodys_way(at_work, make_job, caplog):
    other = make_job(status=Status.RUNNING)
    Attempt.objects.create(job=other, n=1, fence=1, host="elsewhere")
    event = Envelope(seq=5, at="2026-01-01T00:00:00Z", event=Notice(level="info", code="x", text="x"))
    storage().job(at_work.pk).events_path.write_bytes(ENVELOPE.dump_json(event) + b"\n")

    loose_ends.close_left_open(Job.objects.all())

    assert [job.status for job in Job.objects.order_by("pk")] == [Status.RUNNING, Status.QUEUED]
    assert "stays open" in caplog.text
