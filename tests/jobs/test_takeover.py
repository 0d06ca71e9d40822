from __future__ import annotations

import os
import subprocess
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import leases, takeover
from jobs.models import Attempt, DeviceLease, Job
from jobs.process import locked
from jobs.recorder import EventGap
from jobs.states import Status
from jobs.storage import storage
from jobs.supervision.engine import attempt_marker
from jobs.takeover import TakeOver
from tests.surroundings import until


@pytest.fixture
def attempt(make_job):
    """Of another host, whose lease is over."""
    then = timezone.now() - timedelta(minutes=5)
    made = Attempt.objects.create(
        job=make_job(status=Status.RUNNING),
        n=1,
        fence=1,
        host="elsewhere",
        heartbeat_at=then,
        lease_expires_at=then + timedelta(minutes=1),
    )
    storage().job(made.job_id).attempt(1).path.mkdir(parents=True)
    return made


@pytest.fixture
def watched(attempt, monkeypatch):
    """A lease has gone by while somebody looked on."""
    monkeypatch.setattr(leases.Watch, "expired", lambda _: [attempt])
    return attempt


@pytest.mark.django_db
def test_what_nobody_renews_is_closed_and_queued_again(watched, redis_server):
    TakeOver().look()
    watched.refresh_from_db()
    assert watched.reason == "lost: its process was on elsewhere, which did not renew its lease"
    assert Status(Job.objects.get().status) is Status.QUEUED
    assert not DeviceLease.objects.exists()
    TakeOver().look()
    assert Attempt.objects.count() == 1


@pytest.mark.django_db
def test_one_that_cannot_be_closed_keeps_nobody_waiting(watched, make_job, redis_server, monkeypatch, caplog):
    other = Attempt.objects.create(job=make_job(status=Status.RUNNING), n=1, fence=1, host="elsewhere")
    monkeypatch.setattr(leases.Watch, "expired", lambda _: [other, watched])
    close = takeover._close

    def fail_once(attempt):
        if attempt == other:
            raise EventGap("seq 7 follows 3")
        return close(attempt)

    monkeypatch.setattr(takeover, "_close", fail_once)
    TakeOver().look()
    assert f"job={other.job_id} attempt=1 cannot be taken over" in caplog.text
    watched.refresh_from_db()
    assert watched.ended_at is not None


@pytest.mark.django_db
@pytest.mark.parametrize(("before", "after"), [("cancelling", "cancelled"), ("pausing", "paused")])
def test_what_was_asked_to_stop_has_stopped(watched, redis_server, before, after):
    Job.objects.update(status=before)
    TakeOver().look()
    assert Job.objects.get().status == after


@pytest.mark.django_db
def test_how_its_trainer_ended_counts_if_it_could_still_write_that(watched, redis_server):
    exit_path = storage().job(watched.job_id).attempt(1).exit_path
    exit_path.write_text('{"outcome": "failed", "code": "loss.not_finite", "message": "step 3", "hint": "lower it"}')
    TakeOver().look()
    job = Job.objects.get()
    assert (job.status, job.error_code) == (Status.FAILED, "loss.not_finite")


@pytest.mark.django_db
def test_nothing_is_closed_while_a_process_holds_the_folder(watched, redis_server, caplog):
    taking = TakeOver()
    with locked(storage().job(watched.job_id).lock_path) as is_free:
        assert is_free
        taking.look()
        taking.look()
    assert caplog.text.count("a process still holds its folder") == 1
    assert Attempt.objects.get().ended_at is None
    taking.look()
    assert Attempt.objects.get().ended_at is not None


@pytest.fixture
def engine(attempt):
    """What a supervisor of this host has started for the attempt, as far as can be seen from outside."""
    name, _, value = attempt_marker(attempt.pk).partition("=")
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, name: value}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.django_db
def test_a_host_that_comes_back_ends_what_was_closed_meanwhile(attempt, engine, caplog):
    TakeOver().look()
    Attempt.objects.update(ended_at=timezone.now())
    TakeOver().look()
    assert engine.poll() is None
    Attempt.objects.update(ended_at=timezone.now() - timedelta(minutes=1))
    until(lambda: [TakeOver().look()] and engine.poll() is not None)
    assert f"killing job={attempt.job_id} attempt=1" in caplog.text
