"""The services that may die at any moment: agent, Celery worker, Redis. Also with the real trainer."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from jobs import selectors, services, stream
from jobs.models import Artifact, Job, Series
from jobs.requests import ImportRequest, TrainingRequest
from jobs.states import ENDED, Status
from tests.faults.history import check_history
from tests.faults.ledger import fault
from tests.kits.settling import settle
from tests.surroundings import until
from wire.layout import DatasetDir
from wire.specs import Choice, FromSample, TrainOptions

MANY = 100_000
DIGITS = 1797


def kill_agent_and_supervisor(scene, agent, job):
    scene.kill(agent)
    scene.kill_supervisor(job)


def until_adopted(scene, job, engine_pid):
    """The same process is looked after again, and goes on."""
    until(lambda: scene.is_supervised(job))
    assert scene.pid(job) == engine_pid
    assert is_alive(engine_pid)
    until_recorded(job, 20)


def until_recorded(job, n_more):
    """Events; ``done`` begins anew with every stage."""
    wanted = Job.objects.get(pk=job.pk).last_seq + n_more
    until(lambda: Job.objects.filter(pk=job.pk, last_seq__gte=wanted).exists())


def cancel(scene, user, job):
    services.job_cancel(user, job.pk)
    until(lambda: scene.status(job) in ENDED)
    scene.check(job, status=Status.CANCELLED)
    assert len(scene.attempts(job)) == 1


@fault("6", title="Agent killed, and the supervisor with it", how="scripted", inject="SIGKILL")
def test_a_killed_agent_and_supervisor(scene, postgres, user):
    """The trainer never stops: a new agent has it adopted by a new supervisor, in the same attempt, and no event is
    missing or double."""
    agent = scene.start_agent()
    job = scene.submit(steps=MANY)
    scene.until_step(job, 5)
    engine_pid = scene.pid(job)
    kill_agent_and_supervisor(scene, agent, job)
    scene.start_agent()
    until_adopted(scene, job, engine_pid)
    cancel(scene, user, job)


@fault("6", title="Supervisor killed while the trainer writes without a pause", how="scripted", inject="SIGKILL")
def test_a_trainer_that_never_falls_silent_is_adopted_all_the_same(scene, user):
    """The new supervisor does not wait for the end of what is written before it looks after the trainer: a wish to
    stop is obeyed."""
    job = scene.submit(steps=MANY, step_s=0, burst=10, checkpoint_every=MANY)
    scene.start(job)
    scene.until_step(job, 5)
    scene.kill_supervisor(job)
    scene.turn()
    until(lambda: scene.is_supervised(job))
    until_recorded(job, 20)
    cancel(scene, user, job)
    assert Job.objects.get(pk=job.pk).done < MANY


@fault("11", title="Redis killed and started again", how="scripted", inject="SIGKILL")
def test_redis_killed_and_started_again(scene, redis_server):
    """The run goes on; what happened meanwhile is in the stream again afterwards; the Celery worker takes messages
    again, without an agent."""
    worker = scene.start_worker()
    job, later = scene.submit(steps=150), scene.submit(verb="import", steps=5)
    Job.objects.filter(pk=later.pk).update(status=Status.WAITING)
    scene.ring_until(lambda: scene.attempts(job))
    scene.until_step(job, 5)
    redis_server.kill()
    scene.until_step(job, Job.objects.get(pk=job.pk).done + 10)
    redis_server.start()
    until(lambda: scene.status(job) in ENDED)
    scene.rest()
    job.refresh_from_db()
    assert stream.published_seq(job.pk) == job.last_seq

    Job.objects.filter(pk=later.pk).update(status=Status.QUEUED)

    def worker_has_started_it():
        nonlocal worker
        if worker.poll() is not None:  # as supervisord does
            worker = scene.start_worker()
        return scene.status(later) in ENDED

    scene.ring_until(worker_has_started_it)
    check_history(job)


@fault("12", how="real", inject="FLUSHALL")
def test_redis_emptied(scene, user, client):
    """People stay signed in, every event of the run can be had, and the worker goes on taking messages."""
    client.force_login(user)
    scene.start_worker()
    job = scene.submit(steps=150)
    scene.ring_until(lambda: scene.attempts(job))
    scene.until_step(job, 5)
    stream.client().flushall()
    assert client.get(f"/api/v1/jobs/{job.pk}").status_code == 200
    later = scene.submit(verb="import", steps=5)
    scene.ring_until(lambda: scene.status(later) in ENDED)
    until(lambda: scene.status(job) in ENDED)
    scene.check(job, later)
    assert seqs_by_api(client, job) == list(range(1, job.last_seq + 1))


def seqs_by_api(client, job):
    seqs: list[int] = []
    while len(seqs) < job.last_seq:
        page = client.get(f"/api/v1/jobs/{job.pk}/events", {"after": seqs[-1] if seqs else 0})
        told = [event["seq"] for event in page.json()]
        assert told, f"no more events after {seqs[-1:]}"
        seqs += told
    return seqs


# With the real engine.


@pytest.fixture
def digits(real_engine, user):
    job = settle(services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits"))))
    assert job.status == Status.SUCCEEDED, job.error_message
    return job


@pytest.mark.slow
@fault("6", title="Agent killed, and the supervisor with it: the real trainer", how="real", inject="SIGKILL")
@fault("11", title="Redis killed and started again: the real trainer", how="real", inject="SIGKILL")
def test_the_real_trainer_outlives_agent_supervisor_and_redis(scene, digits, user, redis_server):
    """Agent, supervisor and Redis are killed during one training; it never stops, and its curves are whole."""
    agent = scene.start_agent()
    options = TrainOptions(epochs=MANY // 10, image_px=32, colour="grey")
    wish = TrainingRequest(dataset=digits.pk, model=Choice(name="lenet5"), options=options, devices=["cpu"])
    job = services.training_submit(user, wish)
    until(lambda: Series.objects.filter(job=job, name="train/loss").exists())
    engine_pid = scene.pid(job)
    redis_server.kill()
    kill_agent_and_supervisor(scene, agent, job)
    scene.start_agent()
    until_adopted(scene, job, engine_pid)
    redis_server.start()
    cancel(scene, user, job)
    assert {"train/loss", "lr"} <= selectors.curves_read(job).series.keys()


@pytest.mark.slow
@fault("8", how="real", inject="SIGKILL of the worker, and of the import that it started")
def test_an_interrupted_import_begins_again(scene, real_engine, user):
    """The worker's death alone does nothing to it. No part of a dataset is seen before the whole is there; the
    next attempt makes all of it, once, and leaves no temporary file."""
    worker = scene.start_worker()
    job = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    scene.ring_until(lambda: scene.attempts(job))
    engine_pid = scene.pid(job)
    os.kill(engine_pid, signal.SIGSTOP)
    assert not Artifact.objects.exists()
    assert not scene.folder(job).dataset_dir.exists()
    scene.kill_group(worker)
    assert scene.is_supervised(job)
    assert is_alive(engine_pid), "it died with the worker"
    os.kill(engine_pid, signal.SIGKILL)
    until(lambda: scene.status(job) in ENDED)
    scene.check(job)
    assert [attempt.signal for attempt in scene.attempts(job)] == [signal.SIGKILL, None]
    dataset = Artifact.objects.get(made_by=job)
    assert dataset.meta["n_images"] == DIGITS
    folder = DatasetDir(scene.folder(job).path / dataset.path)
    assert folder.manifest_path.exists()


def is_alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
