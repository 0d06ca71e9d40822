"""A supervisor from start to verdict, in real processes, over a scripted engine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jobs import selectors, services
from jobs import supervise as module
from jobs.dispatch import dispatch
from jobs.host import host_name
from jobs.models import Artifact, Attempt, DeviceLease, Job, JobEvent, JobInput
from jobs.reconcile import reconcile
from jobs.states import Status
from tests.jobs.scripted_engine import value_at
from tests.surroundings import until

pytestmark = pytest.mark.django_db(transaction=True)


def assert_whole_curve(job, steps):
    """Every step once, with the value that an unkilled run has."""
    series = selectors.curves_read(job).series["train/loss"]
    assert series.step == list(range(1, steps + 1))
    assert series.value == [None if step == 7 else value_at(step) for step in series.step]


def assert_seq_without_gap(bench, job):
    assert [event["seq"] for event in bench.events(job)] == list(range(1, job.last_seq + 1))


def test_success(bench, make_job):
    job = make_job(steps=20)
    attempt = bench.start(job)
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED, bench.supervisor_output(job)
    assert (job.done, job.total, job.best_step, job.error_code) == (20, 20, 20, "")
    assert job.disk_bytes > 0
    attempt.refresh_from_db()
    assert (attempt.exit_code, attempt.signal, attempt.total_steps) == (0, None, 20)
    assert attempt.ended_at is not None
    assert not DeviceLease.objects.exists()
    assert_whole_curve(job, 20)
    assert_seq_without_gap(bench, job)
    assert Artifact.objects.filter(made_by=job, kind="checkpoint").count() == 4
    assert JobEvent.objects.filter(job=job, kind="notice").count() == 1
    after = [step.after for step in selectors.timeline_of(job)]
    assert after == ["queued", "starting", "running", "succeeded"]


def test_failure_says_what_to_change(bench, make_job):
    job = make_job(fail_at=3)
    bench.start(job)
    bench.until_ended(job)
    assert (job.status, job.error_code, job.error_hint) == (Status.FAILED, "loss.not_finite", "lower it")


def test_killed_engine_goes_on_from_its_checkpoint(bench, make_job):
    job = make_job(steps=30, crash_at={"1": 13})
    bench.start(job)
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED, bench.supervisor_output(job)
    first, second = Attempt.objects.filter(job=job).order_by("n")
    assert (first.signal, first.reason, second.from_step) == (9, "lost: its process was killed by SIGKILL", 10)
    assert second.fence > first.fence
    assert_whole_curve(job, 30)
    assert_seq_without_gap(bench, job)
    after = [step.after for step in selectors.timeline_of(job)]
    assert after == ["queued", "starting", "running", "lost", "queued", "starting", "running", "succeeded"]


def test_a_disk_too_full_for_the_folder_of_an_attempt_pauses_a_training(make_job, redis_server, monkeypatch):
    attempt = Attempt.objects.create(job=make_job(status=Status.STARTING), n=1, fence=1, host=host_name())

    def refuse(path, **_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    for name in ("keep_own_log", "dispatch"):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(Path, "mkdir", refuse)
    module.supervise(attempt.pk)
    attempt.refresh_from_db()
    assert attempt.ended_at is not None
    assert (attempt.job.status, attempt.job.resumes_when) == (Status.PAUSED, "disk")


def test_cancel_finishes_the_step_and_saves(bench, make_job, user):
    job = make_job(steps=5000)
    bench.start(job)
    bench.until_step(job, 3)
    services.job_cancel(user, job.pk)
    bench.until_ended(job)
    assert job.status == Status.CANCELLED
    assert Artifact.objects.filter(made_by=job, name=f"step-{job.done}").exists()
    assert_seq_without_gap(bench, job)


def test_the_room_it_takes_on_the_disk_is_known_while_it_runs(bench, make_job, user):
    job = make_job(steps=5000)
    bench.start(job)
    until(lambda: Job.objects.filter(pk=job.pk, status=Status.RUNNING, disk_bytes__gt=0).exists())
    services.job_cancel(user, job.pk)
    bench.until_ended(job)


def test_cancel_before_the_engine_started(bench, make_job, user):
    job = make_job(steps=5000)
    bench.start(job)
    services.job_cancel(user, job.pk)
    bench.until_ended(job)
    assert job.status == Status.CANCELLED


def test_an_engine_that_does_not_listen_is_killed(bench, make_job, user, monkeypatch):
    monkeypatch.setenv("FOVEA_TEST_GRACE_S", "1")
    job = make_job(steps=5000, deaf=True)
    bench.start(job)
    bench.until_step(job, 3)
    services.job_cancel(user, job.pk)
    bench.until_ended(job)
    assert job.status == Status.CANCELLED
    assert bench.attempt(job).signal == 9


def test_suspend_and_wake(bench, make_job):
    job = make_job(steps=60)
    waiting = make_job(steps=5)
    bench.start(job)
    bench.until_step(job, 8)
    assert services.trainings_suspend(wait_s=30) == 0
    assert bench.status(job) == Status.PAUSED
    assert dispatch() == []
    assert bench.status(waiting) == Status.QUEUED
    assert services.trainings_wake() == 1
    dispatch()
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED
    assert Attempt.objects.get(job=job, n=2).from_step >= 8
    assert_whole_curve(job, 60)
    bench.until_ended(waiting)


def test_killed_supervisor_is_replaced_and_the_training_never_stops(bench, make_job):
    job = make_job(steps=300)
    bench.start(job)
    bench.until_step(job, 20)
    bench.kill_supervisor(job)
    engine = bench.attempt(job).pid
    assert reconcile() == [bench.attempt(job).pk]
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED, bench.supervisor_output(job)
    assert Attempt.objects.filter(job=job).count() == 1
    assert bench.attempt(job).pid == engine
    assert_whole_curve(job, 300)
    assert_seq_without_gap(bench, job)


def test_engine_that_ended_unattended_is_read_to_the_end(bench, make_job):
    job = make_job(steps=60)
    bench.start(job)
    bench.until_step(job, 5)
    bench.kill_supervisor(job)
    until(lambda: bench.events(job)[-1]["event"]["kind"] == "run.ended")
    reconcile()
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED
    assert_whole_curve(job, 60)


def test_both_killed(bench, make_job):
    job = make_job(steps=150)
    bench.start(job)
    bench.until_step(job, 12)
    bench.kill_supervisor(job)
    bench.kill_engine(job)
    reconcile()
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED, bench.supervisor_output(job)
    assert Attempt.objects.filter(job=job).count() == 2
    assert_whole_curve(job, 150)
    assert_seq_without_gap(bench, job)


def test_the_supervisor_killed_before_it_wrote_the_pid_down(bench, make_job):
    job = make_job(steps=800)
    attempt = bench.start(job)
    bench.until_step(job, 3)
    bench.kill_supervisor(job)
    engine = bench.attempt(job).pid
    Attempt.objects.filter(pk=attempt.pk).update(pid=None, pid_started=None)
    reconcile()
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED
    assert f"pid={engine}" in bench.supervisor_output(job).split("adopted")[1]
    assert_whole_curve(job, 800)


def test_redis_is_away_while_training(bench, make_job, redis_server):
    from jobs.stream import client, events_key

    job = make_job(steps=150)
    bench.start(job)
    bench.until_step(job, 10)
    redis_server.kill()
    bench.until_step(job, 60)
    redis_server.start()
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED, bench.supervisor_output(job)
    assert_whole_curve(job, 150)
    until(lambda: client().xlen(events_key(job.pk)))
    seqs = [int(entry.split(b"-")[0]) for entry, _ in client().xrange(events_key(job.pk))]
    assert seqs == list(range(1, job.last_seq + 1))


def test_thousands_of_points_a_second(bench, make_job):
    job = make_job(steps=40, step_s=0.02, burst=100)
    bench.start(job)
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED
    series = selectors.curves_read(job, max_points=10_000).series["train/loss"]
    assert len(series.seq) == 4000


def test_a_training_that_succeeded_is_evaluated_by_the_same_supervisor(bench, make_job, user):
    dataset = make_job(verb="import", status=Status.SUCCEEDED)
    made = Artifact.objects.create(
        made_by=dataset, kind="dataset", name="dataset", path="artifacts/dataset", sha256="a" * 64, bytes=1,
        meta={"counts": {"train": 9, "val": 3}},
    )  # fmt: skip
    run = make_job(steps=10)
    JobInput.objects.create(job=run, artifact=made, role="dataset")
    bench.start(run)
    bench.until_ended(run)
    (evaluation,) = Job.objects.filter(part_of=run)
    # Its supervisor calls for the next job when the run is closed; nobody else does here.
    bench.until_ended(evaluation)
    assert evaluation.status == Status.SUCCEEDED, bench.supervisor_output(evaluation)
    assert evaluation.spec["checkpoint"]["name"] == "step-10"
    assert Job.objects.filter(part_of__isnull=False).count() == 1
    assert not DeviceLease.objects.exists()
    assert_seq_without_gap(bench, evaluation)


@pytest.mark.parametrize("verb", ["evaluate", "classify"])
def test_a_part_that_was_killed_is_tried_again_and_one_that_was_suspended_goes_on(bench, make_job, verb):
    job = make_job(verb=verb, steps=400, checkpoint_every=1000, crash_at={"1": 7})
    bench.start(job)
    until(lambda: Attempt.objects.filter(job=job, n=2, started_seq__isnull=False).exists())
    bench.until_step(job, 8)
    assert services.trainings_suspend(wait_s=30) == 0
    assert bench.status(job) == Status.PAUSED
    services.trainings_wake()
    dispatch()
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED, bench.supervisor_output(job)
    assert [attempt.reason.split(":")[0] for attempt in Attempt.objects.filter(job=job).order_by("n")] == [
        "lost", "paused as asked", "succeeded",
    ]  # fmt: skip
    assert_seq_without_gap(bench, job)


def test_a_part_is_cancelled_as_a_run_is(bench, make_job, user):
    job = make_job(verb="classify", steps=5000)
    bench.start(job)
    bench.until_step(job, 3)
    services.job_cancel(user, job.pk)
    bench.until_ended(job)
    assert job.status == Status.CANCELLED
