"""Trainers that hang, crash and eat, GPUs that fail, and what is said of it."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from jobs import retry, selectors
from jobs.diagnosis import diagnose
from jobs.logs import WholeLog, log_read
from jobs.models import Device, Job
from jobs.states import Status
from jobs.supervision.log_cap import MIB, MOST_BYTES
from tests.faults.ledger import fault
from tests.faults.memory_group import inside, memory_group
from tests.kits.gpus import fake_gpus
from tests.surroundings import until

EVERY_ATTEMPT = [str(n) for n in range(1, 9)]


@pytest.fixture
def hanging(scene, monkeypatch):
    """A scene in which two seconds without a step are too long."""
    monkeypatch.setenv("FOVEA_TEST_HANG_S", "2")
    monkeypatch.setenv("FOVEA_TEST_GRACE_S", "1")
    return scene


@fault("3", how="scripted", inject="sleep for an hour at step 8, deaf to SIGTERM; saves that take longer than a hang")
def test_a_trainer_that_hangs_says_where_and_goes_on_from_its_checkpoint(hanging):
    """Its stacks are kept, it is ended, and the next attempt goes on; a slow save trips nothing."""
    job = hanging.submit(steps=9, step_s=0.05, save_s=2.5, hang_at={"1": 8})
    hanging.finish(job)
    hanging.check(job)
    first, second = hanging.attempts(job)
    assert first.reason.startswith("lost: it hung: no step for ")
    assert second.from_step == 5
    stacks = hanging.folder(job).attempt(1).stacks_path.read_text()
    assert "after 8 in the stage “train”" in stacks
    assert "in suffer" in stacks
    assert "hrtimer" in stacks or "user code" in stacks or "poll" in stacks
    assert not hanging.folder(job).attempt(2).stacks_path.exists()


@fault("3", title="Trainer stopped from outside", how="scripted", inject="SIGSTOP")
def test_a_trainer_that_somebody_stopped_is_woken(hanging):
    """It goes on where it was, in the same attempt."""
    job = hanging.submit(steps=25, step_s=0.05)
    hanging.start(job)
    hanging.until_step(job, 7)
    os.kill(hanging.pid(job), signal.SIGSTOP)
    hanging.finish(job)
    hanging.check(job)
    assert len(hanging.attempts(job)) == 1


@fault("4", how="scripted", inject="SIGABRT at step 8 of the first attempt")
def test_a_trainer_that_aborts_goes_on_from_its_checkpoint(scene):
    """Nothing but the steps after the checkpoint is computed again."""
    job = scene.submit(steps=12, abort_at={"1": 8})
    scene.finish(job)
    scene.check(job)
    first, second = scene.attempts(job)
    assert (first.signal, first.reason) == (signal.SIGABRT, "lost: its process was killed by SIGABRT")
    assert second.from_step == 5


@fault("5", how="scripted", inject="exit status 3 at the first step of every attempt")
def test_a_poison_job_does_not_hold_up_the_queue(scene, monkeypatch):
    """It is given up after five attempts; while it waits for the next one, the job behind it runs."""
    monkeypatch.setattr("jobs.retry.DELAYS_S", (3600,))
    poison = scene.submit(steps=10, exit_at={n: [1, 3] for n in EVERY_ATTEMPT})
    scene.start(poison)
    scene.until(lambda: scene.status(poison) == Status.QUEUED)
    behind = scene.submit(steps=10)
    scene.finish(behind)
    assert scene.status(poison) == Status.QUEUED
    poison.refresh_from_db()
    assert poison.wait_reason.startswith("Its process was lost; the next attempt begins at")
    monkeypatch.setattr("jobs.retry.DELAYS_S", (0,))
    scene.finish(poison)
    scene.check(poison, status=Status.ERRORED)
    scene.check(behind)
    assert len(scene.attempts(poison)) == retry.MOST_FRUITLESS
    assert poison.error_code == "attempts.exhausted"
    assert "in the last one its process ended with status 3.\n" in poison.error_message
    found = diagnose(poison)
    assert found is not None
    assert found.last_lines == "attempt 5 begins"
    assert found.message.endswith("ended with status 3.")


@pytest.fixture
def small_group():
    with memory_group(96 * MIB) as folder:
        yield folder
        until(lambda: not (folder / "cgroup.procs").read_text())


@fault("29", how="real", inject="control group of 96 MiB; the scripted trainer fills it")
def test_out_of_memory_ends_that_trainer_alone_and_is_named(scene, small_group, monkeypatch):
    """The kernel ends the trainer, not its supervisor; the job fails at once and says RAM, not "killed"."""
    command = os.environ["FOVEA_TEST_ENGINE"].split(os.pathsep)
    monkeypatch.setenv("FOVEA_TEST_ENGINE", os.pathsep.join(inside(small_group, command)))
    job = scene.submit(steps=10, eat_at=4)
    scene.finish(job)
    scene.check(job, status=Status.FAILED)
    (attempt,) = scene.attempts(job)
    assert attempt.signal == signal.SIGKILL
    assert job.error_code == "host.out_of_memory"
    assert job.error_message.startswith("The machine's memory (RAM) was used up: the system ended it")
    found = diagnose(job)
    assert found is not None
    assert found.title == "The machine ran out of memory (RAM)"


@pytest.fixture
def gpus(scene, tmp_path, monkeypatch):
    """Two GPUs; a trainer that does not leave its own is ended after a second."""
    monkeypatch.setenv("FOVEA_TEST_GRACE_S", "1")
    with fake_gpus(tmp_path) as gpus:
        scene.turn()
        yield gpus


def submit_on_gpu(scene, **script):
    job = scene.submit(**script)
    Job.objects.filter(pk=job.pk).update(wants=["any"])
    return job


def gpu(index):
    return Device.objects.get(uuid=f"GPU-0000000{index}-fake")


@fault("31", how="simulated", inject="fake NVML: Xid 79, then no answer")
def test_a_gpu_that_falls_off_the_bus_loses_its_job_to_another(scene, gpus):
    """The GPU is out of service with the reason, the job goes on on the other one, and nothing counts against it."""
    job = submit_on_gpu(scene, steps=12, hang_at={"1": 8})
    scene.start(job)
    scene.until_step(job, 8)
    gpus.fall_off_bus(0)
    scene.finish(job)
    scene.check(job)
    first, second = scene.attempts(job)
    assert (first.devices, second.devices) == (["GPU 0 (Fake 3000)"], ["GPU 1 (Fake 3000)"])
    assert first.reason.startswith("device lost: GPU 0 (Fake 3000)")
    assert second.from_step == 5
    assert retry.n_fruitless(job.pk) == 0
    lost = next(device for device in selectors.devices_list() if device.uuid == gpu(0).uuid)
    assert lost.drained
    assert "does not answer its driver any more" in lost.drained_reason


@fault("32", how="simulated", inject="fake NVML: Xid 94, 48 and thermal throttling")
def test_memory_errors_and_heat(scene, gpus):
    """Contained: tried again on the same GPU. Uncontained or double: drained. Throttled: a warning, and it is used."""
    job = submit_on_gpu(scene, steps=12, crash_at={"1": 7}, hang_at={"2": 8})
    scene.start(job)
    gpus.report(0, 94)
    gpus.throttle(0, 0x20)
    scene.until(lambda: len(scene.attempts(job)) == 2)
    assert scene.attempts(job)[1].devices == ["GPU 0 (Fake 3000)"]
    scene.until(lambda: gpu(0).warning)
    assert gpu(0).warning == (
        "it is slowed down because it is hot; a contained memory error ended what ran on it (Xid 94)"
    )
    assert gpu(0).is_usable
    scene.until(lambda: Job.objects.filter(pk=job.pk, done=8).exists())
    gpus.report(0, 48)
    scene.finish(job)
    scene.check(job)
    assert "double-bit memory error (Xid 48)" in gpu(0).drained_reason
    assert [attempt.devices for attempt in scene.attempts(job)][-1] == ["GPU 1 (Fake 3000)"]


@fault("33", how="simulated", inject="fake NVML lists a real process that no job has started")
def test_a_strangers_process_keeps_its_gpu(scene, gpus):
    """Nothing is placed beside it, it is shown and not touched, and the job runs when it is gone."""
    Device.objects.filter(uuid=gpu(1).uuid).update(drained=True)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        gpus.occupy(0, (stranger.pid, 8192 * MIB))
        scene.turn()
        job = submit_on_gpu(scene, steps=5)
        Job.objects.filter(pk=job.pk).update(wants=[gpu(0).uuid])
        for _ in range(5):
            scene.turn()
        job.refresh_from_db()
        assert job.status == Status.QUEUED
        assert f"process {stranger.pid} (sleep) with 8.5 GB is on it" in job.wait_reason
        (shown,) = (device for device in selectors.devices_list() if device.uuid == gpu(0).uuid)
        (process,) = shown.strangers
        assert (process.pid, process.name, process.memory_bytes) == (stranger.pid, "sleep", 8192 * MIB)
        assert stranger.poll() is None
        stranger.kill()
    gpus.occupy(0)
    scene.finish(job)
    scene.check(job)


@fault("A4", how="scripted", inject="1 GB to stdout before the first step")
def test_a_gigabyte_of_log_does_not_fill_the_disk(scene):
    """The first lines and the last ones are kept, the file takes a few MiB, and pages read it as any other."""
    job = scene.submit(steps=10, log_bytes=10**9, fail_at=8)
    scene.finish(job)
    scene.check(job, status=Status.FAILED)
    path = scene.folder(job).attempt(1).log_path
    assert path.stat().st_blocks * 512 <= MOST_BYTES
    whole = b"".join(iter(WholeLog(path).read, b""))
    assert whole.startswith(b"attempt 1 begins\n")
    assert len(whole) <= MOST_BYTES
    assert whole.count(b"left out here") == 1
    tail = log_read(job)
    assert len(tail.text) <= 64 * 1024
    assert tail.end == tail.size
    found = diagnose(job)
    assert found is not None
    assert len(found.last_lines.splitlines()) == 12
