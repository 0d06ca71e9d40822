"""The same wish makes one job, however often and however closely together it is sent."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from jobs.housekeeping import housekeep
from jobs.models import Job, Submission
from jobs.requests import ImportRequest
from jobs.services import import_submit, job_cancel, jobs_delete
from jobs.submissions import KEPT, Key, asked_with
from wire.errors import SpecInvalid
from wire.specs import FromSample

pytestmark = pytest.mark.django_db(transaction=True)


def wish(name="Digits", sample="digits"):
    return ImportRequest(name=name, source=FromSample(name=sample))


def submit(owner, key, **changes):
    with asked_with(lambda: key):
        return import_submit(owner, wish(**changes))


def test_the_same_key_and_wish_give_the_same_job(user, other_user):
    first = submit(user, Key("a"))
    assert submit(user, Key("a")).pk == first.pk
    assert submit(user, Key("b")).pk != first.pk
    assert submit(user, Key("a"), name="Others").pk != first.pk
    assert submit(other_user, Key("a")).pk != first.pk
    assert import_submit(user, wish()).pk != import_submit(user, wish()).pk


def test_what_was_refused_is_not_remembered(user):
    with pytest.raises(SpecInvalid):
        submit(user, Key("a"), sample="nothing")
    assert not Submission.objects.exists()


def test_two_at_once_make_one(user):
    ready = threading.Barrier(4)
    made = []

    def send():
        ready.wait()
        made.append(submit(user, Key("a")).pk)
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(set(made)), Job.objects.count()) == (4, 1, 1)


def test_a_page_may_ask_for_another_once_the_first_has_ended(user):
    page = Key("token", while_it_lasts=True)
    first, clients = submit(user, page), submit(user, Key("a"))
    assert submit(user, page).pk == first.pk
    for job in (first, clients):
        job_cancel(user, job.pk)
    assert submit(user, page).pk != first.pk
    assert submit(user, Key("a")).pk == clients.pk
    jobs_delete(user, [clients.pk])
    assert submit(user, Key("a")).pk != clients.pk


def test_keys_are_forgotten(user):
    submit(user, Key("a"))
    housekeep()
    assert Submission.objects.exists()
    Submission.objects.update(at=timezone.now() - KEPT - timedelta(minutes=1))
    housekeep()
    assert not Submission.objects.exists()
