from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.db import IntegrityError, transaction

from jobs import stream, transitions
from jobs.models import Attempt, Job, Transition
from jobs.states import ALLOWED, ENDED, LIVE, Status
from jobs.transitions import IllegalTransition, move


def test_every_state_is_in_the_table_and_can_be_left_or_is_an_end():
    assert set(ALLOWED) == set(Status)
    assert {Status.SUCCEEDED, Status.FAILED, Status.ERRORED, Status.CANCELLED} == ENDED
    reached = {Status.WAITING, Status.QUEUED}
    while more := {after for before in reached for after in ALLOWED[before]} - reached:
        reached |= more
    assert reached == set(Status)


def test_every_live_state_can_be_cancelled_and_lost():
    for status in LIVE - {Status.CANCELLING}:
        assert Status.CANCELLING in ALLOWED[status]
        assert Status.LOST in ALLOWED[status]


@pytest.mark.django_db
def test_only_one_of_many_moves_wins(make_job):
    job = make_job()
    wins = [move(job.pk, before=Status.QUEUED, after=Status.STARTING, reason=str(n)) for n in range(5)]
    assert wins == [True, False, False, False, False]
    assert [step.reason for step in Transition.objects.filter(job=job, before="queued")] == ["0"]


@pytest.mark.django_db
@pytest.mark.parametrize("before", list(Status))
def test_a_step_that_the_table_does_not_have_is_refused(make_job, before):
    job = make_job(status=before)
    for after in set(Status) - ALLOWED[before]:
        with pytest.raises(IllegalTransition):
            move(job.pk, before=before, after=after)
    job.refresh_from_db()
    assert job.status == before


@pytest.mark.django_db
def test_a_stale_fence_moves_nothing(make_job):
    job = make_job(status=Status.RUNNING)
    Attempt.objects.create(job=job, n=2, fence=2, host="here")
    assert not move(job.pk, before=Status.RUNNING, after=Status.SUCCEEDED, fence=1)
    assert move(job.pk, before=Status.RUNNING, after=Status.SUCCEEDED, fence=2)


@pytest.mark.django_db(transaction=True)
def test_open_pages_hear_of_a_move_when_it_is_committed(make_job, redis_server):
    job = make_job()
    heard = stream.client().xlen(stream.changes_key())
    with transaction.atomic():
        move(job.pk, before=Status.QUEUED, after=Status.STARTING)
        assert stream.client().xlen(stream.changes_key()) == heard
    assert stream.client().xlen(stream.changes_key()) == heard + 1


@pytest.mark.django_db
def test_the_database_refuses_an_unknown_state(make_job):
    job = make_job()
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(status="sleeping")


@pytest.mark.django_db
def test_a_job_has_one_open_attempt_at_most(make_job):
    job = make_job()
    Attempt.objects.create(job=job, n=1, fence=1, host="here")
    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.create(job=job, n=2, fence=2, host="here")


def test_status_is_set_in_transitions_alone():
    assigns = re.compile(r"\.status\s*=[^=]|update\([^)]*\bstatus\s*=|create\([^)]*\bstatus\s*=")
    root = Path(settings.BASE_DIR)
    files = [path for package in ("jobs", "dashboard", "config") for path in (root / package).rglob("*.py")]
    assert len(files) > 20
    guilty = [path for path in files if assigns.search(path.read_text()) and "migrations" not in path.parts]
    assert guilty == [Path(transitions.__file__)]
