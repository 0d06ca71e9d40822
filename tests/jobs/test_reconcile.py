from __future__ import annotations

from types import SimpleNamespace

import pytest

from jobs import host, launch
from jobs.host import host_name
from jobs.models import Attempt
from jobs.process import boot_id
from jobs.reconcile import reconcile
from jobs.states import Status


@pytest.fixture
def begun(make_job):
    def begin(**columns):
        return Attempt.objects.create(job=make_job(status=Status.RUNNING), n=1, fence=1, **columns)

    return begin


@pytest.fixture
def adopted(monkeypatch):
    found = []
    monkeypatch.setattr(launch, "start_supervisor", lambda attempt: found.append(attempt.pk))
    return found


@pytest.mark.django_db
def test_only_this_host_s_attempts_are_adopted(begun, adopted, monkeypatch):
    monkeypatch.setattr(host, "connection", SimpleNamespace(vendor="postgresql"))
    ours = begun(host=host_name())
    begun(host="a container beside this one", boot_id=boot_id())
    assert reconcile() == adopted == [ours.pk]


@pytest.mark.django_db
def test_a_database_that_one_host_can_use_holds_no_other_host_s_attempts(begun, adopted, monkeypatch):
    monkeypatch.setattr(host, "connection", SimpleNamespace(vendor="sqlite"))
    before = begun(host="before", boot_id="before the restart")
    assert reconcile() == adopted == [before.pk]


@pytest.mark.django_db
def test_one_that_cannot_be_adopted_keeps_nobody_else_from_it(begun, monkeypatch, caplog):
    first, second = begun(host=host_name()), begun(host=host_name())

    def start(attempt):
        if attempt == first:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(launch, "start_supervisor", start)
    assert reconcile() == [second.pk]
    assert f"job={first.job_id} attempt=1 gets no supervisor: [Errno 28]" in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("before", "after"),
    [("starting", "queued"), ("running", "queued"), ("pausing", "paused"), ("cancelling", "cancelled")],
)
def test_what_should_run_and_has_no_attempt_is_not_stuck(make_job, redis_server, before, after):
    job = make_job(status=Status(before))
    reconcile()
    job.refresh_from_db()
    assert job.status == after
    assert (job.ended_at is not None) == (after == "cancelled")


@pytest.mark.django_db
def test_what_has_an_open_attempt_is_let_be(begun, adopted):
    attempt = begun(host=host_name())
    reconcile()
    attempt.job.refresh_from_db()
    assert attempt.job.status == Status.RUNNING
