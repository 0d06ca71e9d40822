"""A worker that listens to itself: when it is deaf, and when it is not."""

from __future__ import annotations

import pytest

from jobs import canary, tasks
from jobs.canary import Hearing, heard
from jobs.host import host_name
from jobs.storage import storage


@pytest.fixture
def hearing(settings):
    settings.CANARY_PATIENCE_S = 80.0
    return Hearing()


def test_silence_counts_from_its_beginning(hearing):
    assert not hearing.fails(0.0, redis_answers=True)
    assert not hearing.fails(80.0, redis_answers=True)
    assert hearing.fails(81.0, redis_answers=True)


def test_what_is_heard_begins_it_anew_and_is_a_sign_of_life(hearing):
    sign = storage().sign_path(host_name(), "worker")
    sign.unlink(missing_ok=True)
    assert not hearing.fails(0.0, redis_answers=True)
    heard()
    assert not hearing.fails(75.0, redis_answers=True)
    assert sign.exists()
    assert not hearing.fails(150.0, redis_answers=True)
    assert hearing.fails(156.0, redis_answers=True)


def test_without_redis_nobody_can_hear(hearing):
    assert not hearing.fails(0.0, redis_answers=True)
    assert not hearing.fails(500.0, redis_answers=False)
    assert not hearing.fails(1000.0, redis_answers=True)
    assert hearing.fails(1081.0, redis_answers=True)


def test_its_ring_goes_to_this_worker_alone(redis_server):
    from jobs.stream import client

    assert tasks.ring_canary()
    assert client().keys() == [canary.queue_name().encode()], "nothing else may stay in Redis of a worker that is gone"
    redis_server.kill()
    assert not tasks.ring_canary()


def test_a_process_that_only_rings_starts_nothing(settings, monkeypatch):
    called = []
    monkeypatch.setattr(tasks, "start_what_can_start", lambda: called.append("dispatch"))
    monkeypatch.setattr(tasks, "reconcile", lambda: called.append("reconcile"))
    monkeypatch.setattr(tasks, "tidy", lambda: called.append("tidy"))
    settings.STARTS_JOBS = False
    tasks.dispatch()
    tasks.housekeep()
    assert called == ["tidy"]
    settings.STARTS_JOBS = True
    tasks.dispatch()
    tasks.housekeep()
    assert called == ["tidy", "dispatch", "reconcile", "tidy"]
