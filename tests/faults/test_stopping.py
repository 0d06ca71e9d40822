"""Paused and cancelled at awkward moments: always the device is free afterwards, and nothing is left over."""

from __future__ import annotations

import pytest

from jobs import services
from jobs.models import Artifact, Attempt, DeviceLease
from jobs.states import LIVE, Status
from tests.faults.ledger import fault
from tests.surroundings import until
from wire.errors import ActionRefused


def until_saving(scene, job):
    """In the middle of a save: the file is half there."""
    until(lambda: list(scene.folder(job).checkpoints_dir.glob("*.tmp")))


@fault("A1", how="scripted", inject="cancelled in the moment when it is claimed, and while the engine starts")
@pytest.mark.parametrize("engine_runs", [False, True])
def test_cancelled_while_it_starts(scene, user, engine_runs):
    """It ends CANCELLED; no process, lease or scratch folder is left."""
    job = scene.submit(steps=5000, start_s=30 if engine_runs else 0, scratch=True, child=True)
    scene.start(job)
    if engine_runs:
        scene.pid(job)
    assert services.job_cancel(user, job.pk).status == Status.CANCELLING
    scene.finish(job)
    scene.check(job, status=Status.CANCELLED)


@fault("A2", how="scripted", inject="cancelled in the middle of a save that takes two seconds")
def test_cancelled_while_it_saves(scene, user):
    """The save is finished and announced, then it ends CANCELLED; no half file is left."""
    job = scene.submit(steps=5000, save_s=2, checkpoint_every=5, scratch=True)
    scene.start(job)
    until_saving(scene, job)
    services.job_cancel(user, job.pk)
    scene.finish(job)
    scene.check(job, status=Status.CANCELLED)
    assert Artifact.objects.filter(made_by=job, name="step-5").exists()
    assert job.done in {5, 6}


@fault("A3", how="scripted", inject="cancelled twice while it runs, and once more when it has ended")
def test_cancelled_twice(scene, user):
    """The second time changes nothing, the third is refused with words; the history has one cancellation."""
    job = scene.submit(steps=5000)
    scene.start(job)
    scene.until_step(job, 3)
    for _ in range(2):
        assert services.job_cancel(user, job.pk).status == Status.CANCELLING
    scene.finish(job)
    with pytest.raises(ActionRefused, match="cancelled already"):
        services.job_cancel(user, job.pk)
    scene.check(job, status=Status.CANCELLED)
    assert scene.after(job).count("cancelling") == 1


@fault("A3", title="Cancelled twice, and deaf to it", how="scripted", inject="SIGTERM ignored; cancelled twice")
def test_cancelled_twice_and_deaf(scene, user, monkeypatch):
    """An engine that does not hear is killed after its grace, with its children; its scratch folder goes too."""
    monkeypatch.setenv("FOVEA_TEST_GRACE_S", "1")
    job = scene.submit(steps=5000, deaf=True, child=True, scratch=True)
    scene.start(job)
    scene.until_step(job, 3)
    services.job_cancel(user, job.pk)
    services.job_cancel(user, job.pk)
    scene.finish(job)
    scene.check(job, status=Status.CANCELLED)
    assert [one.signal for one in scene.attempts(job)] == [9]


def until_paused(scene, job):
    scene.until(lambda: scene.status(job) == Status.PAUSED)
    scene.rest()
    job.refresh_from_db()


def test_paused_and_resumed_is_one_job(scene, user):
    job = scene.submit(steps=60)
    scene.start(job)
    scene.until_step(job, 8)
    assert services.job_pause(user, job.pk).status == Status.PAUSING
    until_paused(scene, job)
    assert not DeviceLease.objects.exists()
    assert (job.resumes_when, job.wait_reason) == ("", "By ada. It goes on when it is resumed.")
    stopped_at = job.done
    scene.turn()
    assert scene.status(job) == Status.PAUSED
    following = scene.submit(steps=3)
    scene.finish(following)
    assert services.job_resume(user, job.pk).status == Status.QUEUED
    scene.finish(job)
    scene.check(job, following)
    assert [attempt.from_step for attempt in scene.attempts(job)] == [0, stopped_at]
    assert "paused by ada" in job.transitions.values_list("reason", flat=True)


def test_paused_while_it_starts(scene, user):
    job = scene.submit(steps=12, scratch=True)
    scene.start(job)
    services.job_pause(user, job.pk)
    until_paused(scene, job)
    services.job_resume(user, job.pk)
    scene.finish(job)
    scene.check(job)


def test_paused_while_it_saves(scene, user):
    job = scene.submit(steps=12, save_s=1, checkpoint_every=5)
    scene.start(job)
    until_saving(scene, job)
    services.job_pause(user, job.pk)
    services.job_pause(user, job.pk)
    until_paused(scene, job)
    services.job_resume(user, job.pk)
    scene.finish(job)
    scene.check(job)
    assert scene.attempts(job)[1].from_step in {5, 6}


def test_a_pause_of_a_person_outlives_the_stop_of_the_server(scene, user):
    job = scene.submit(steps=5000)
    scene.start(job)
    scene.until_step(job, 3)
    services.trainings_suspend(wait_s=30)
    services.job_pause(user, job.pk)
    services.trainings_wake()
    scene.turn()
    assert scene.status(job) == Status.PAUSED
    services.job_cancel(user, job.pk)
    scene.check(job, status=Status.CANCELLED)


def test_cancelled_while_it_pauses(scene, user):
    job = scene.submit(steps=5000, save_s=1)
    scene.start(job)
    scene.until_step(job, 2)
    services.job_pause(user, job.pk)
    services.job_cancel(user, job.pk)
    scene.finish(job)
    scene.check(job, status=Status.CANCELLED)
    assert job.wait_reason == ""
    assert not Attempt.objects.filter(job=job, job__status__in=LIVE).exists()
