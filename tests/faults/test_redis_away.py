"""Redis away for long, and Redis that takes no more: a delay, and nothing else."""

from __future__ import annotations

import pytest

from jobs import stream
from jobs.models import Job
from jobs.services import job_cancel
from jobs.states import Status
from tests.faults.ledger import fault
from tests.faults.sockets import Follower
from tests.faults.web import served
from tests.surroundings import until


@pytest.fixture
def full_redis(redis_server):
    """Redis, which refuses every write from ``fill`` to ``empty``."""

    class Full:
        def fill(self):
            stream.client().config_set("maxmemory-policy", "noeviction")
            stream.client().config_set("maxmemory", 1)

        def empty(self):
            stream.client().config_set("maxmemory", 0)

    full = Full()
    yield full
    full.empty()


def submit(web, dataset):
    wish = {"dataset": dataset.pk, "model": {"name": "lenet5"}, "title": "wished"}
    answer = web.post("/api/v1/trainings", wish)
    assert answer.status == 201, answer.body
    return Job.objects.get(pk=answer.json["id"])


def polled(web, job):
    """Every event, as a page without a socket asks for them."""
    seqs: list[int] = []
    while page := web.get(f"/api/v1/jobs/{job.pk}/events?after={len(seqs)}&limit=7").json:
        seqs += [each["seq"] for each in page]
    return seqs


@fault("13", how="real", inject="SIGKILL; it stays away for the whole life of a job")
def test_a_job_from_wish_to_end_without_redis(scene, redis_server, user, imported):
    """Submitted by the API, started by the agent, watched by polling, recorded whole; the browser is told to poll."""
    dataset = imported()
    redis_server.kill()
    with served(user) as web:
        job = submit(web, dataset)
        watcher = Follower(web, job.pk)
        watcher.open()
        watcher.says_live(ok=False)
        scene.until(lambda: web.get(f"/api/v1/jobs/{job.pk}").json["status"] == "succeeded")
        job.refresh_from_db()
        assert polled(web, job) == list(range(1, job.last_seq + 1))
        assert web.get("/readyz").status == 200

        redis_server.start()
        watcher.says_live(ok=True)
        assert watcher.has_all(job.last_seq)
        watcher.close()
        assert set(web.statuses) == {200, 201}
    scene.check(job)


@fault("14", how="real", inject="CONFIG SET maxmemory 1")
def test_a_redis_that_takes_no_more_is_only_slower(scene, full_redis, user, imported):
    """No request fails; pages poll and miss nothing; once there is room, updates are live again."""
    dataset = imported()
    with served(user) as web:
        before = scene.submit(steps=10_000, step_s=0.03)
        scene.turn()
        watcher = Follower(web, before.pk)
        watcher.open()
        watcher.hear_up_to(5)
        full_redis.fill()
        watcher.says_live(ok=False)
        job = submit(web, dataset)
        assert web.get("/readyz").status == 200
        seen = watcher.after
        until(lambda: len(polled(web, before)) > seen)

        full_redis.empty()
        watcher.says_live(ok=True)
        job_cancel(user, before.pk)
        scene.finish(before, job)
        watcher.hear_up_to(before.last_seq)
        assert watcher.has_all(before.last_seq)
        watcher.close()
        assert polled(web, job) == list(range(1, job.last_seq + 1))
        assert set(web.statuses) == {200, 201}
    scene.check(before, status=Status.CANCELLED)
    scene.check(job)
