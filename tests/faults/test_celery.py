"""What becomes of jobs when Celery's messages do not arrive as they were sent."""

from __future__ import annotations

import pytest

from jobs import tasks
from jobs.models import Job
from jobs.states import ENDED
from tests.faults.bent import BENT, EveryThirdLost, bent, twice_and_shuffled
from tests.faults.ledger import fault
from tests.surroundings import until


@pytest.fixture
def queue_of_jobs(scene):
    """A training that is killed once, and imports that run beside it."""
    return [scene.submit(steps=20, crash_at={"1": 8}), *(scene.submit(verb="import", steps=20) for _ in range(2))]


def all_ended() -> bool:
    tasks.housekeep.apply_async(retry=False)
    return not Job.objects.exclude(status__in=ENDED).exists()


def check_each_ran_once(scene, jobs):
    scene.check(*jobs)
    for job in jobs:
        attempts = scene.attempts(job)
        assert len(attempts) == 1 + ("crash_at" in job.spec["script"])
        for attempt in attempts:
            said = scene.folder(job).attempt(attempt.n).log_path.read_text()
            assert said.count(f"attempt {attempt.n} begins") == 1


@fault("37", how="real", inject="a process between sender and worker sends every message twice, shuffled")
def test_every_message_twice_and_out_of_order(scene, postgres, queue_of_jobs, rng):
    """With two workers' processes and no agent, each job starts once, each attempt has one trainer, and all of them
    end as they would have."""
    scene.start_worker("-Q", BENT, "--concurrency", "2")
    with bent(twice_and_shuffled(rng)):
        scene.ring_until(all_ended)
    check_each_ran_once(scene, queue_of_jobs)


@fault("38", how="real", inject="a process between sender and worker drops every third message")
def test_every_third_message_lost(scene, queue_of_jobs):
    """Each job is rung for once, at its submission. All of them end as they would have: the agent looks every two
    seconds, whatever was lost."""
    lose = EveryThirdLost()
    scene.start_worker("-Q", BENT)
    scene.start_agent()
    with bent(lose):
        for _ in queue_of_jobs:
            tasks.ring()
        until(lambda: lose.n_lost)
        until(lambda: not Job.objects.exclude(status__in=ENDED).exists())
    check_each_ran_once(scene, queue_of_jobs)
