from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError
from django.utils import timezone

from jobs import agent as agent_module
from jobs import checks, selectors, services, stream, suspension, tasks
from jobs.agent import Agent
from jobs.devices import DeviceWatch, cpu_slot
from jobs.housekeeping import housekeep
from jobs.models import Attempt, Device, DeviceLease, DeviceSample, Job
from jobs.process import boot_id
from jobs.reconcile import reconcile
from jobs.states import Status
from jobs.storage import storage
from tests.surroundings import until


@pytest.mark.django_db
def test_the_cpu_is_one_slot_and_its_history_is_thin():
    watch = DeviceWatch()
    for _ in range(3):
        watch.look()
    cpu = Device.objects.get(uuid=cpu_slot())
    assert (cpu.kind, cpu.name.startswith("CPU ("), cpu.memory_bytes > 2**30) == ("cpu", True, True)
    assert DeviceSample.objects.filter(device=cpu).count() == 1
    DeviceSample.objects.update(at=timezone.now() - timedelta(days=3))
    housekeep()
    assert not DeviceSample.objects.exists()


@pytest.mark.django_db
def test_a_turn_survives_a_database_that_is_away(monkeypatch, caplog):
    done = []

    def fail():
        done.append("failed")
        raise OperationalError("gone")

    monkeypatch.setattr(agent_module, "reconcile", fail)
    monkeypatch.setattr(agent_module, "dispatch", lambda: done.append("dispatched"))
    monkeypatch.setattr(agent_module, "let_go_if_broken", lambda: done.append("closed"))
    agent = Agent()
    agent.turn()
    agent.turn()
    assert done == ["failed", "closed", "dispatched"] * 2
    assert caplog.text.count("reconcile failed, trying again: gone") == 1


@pytest.mark.django_db
def test_a_turn_survives_what_nobody_thought_of(monkeypatch, caplog):
    done = []
    monkeypatch.setattr(agent_module, "reconcile", lambda: done[0].nothing)
    monkeypatch.setattr(agent_module, "dispatch", lambda: done.append("dispatched"))
    agent = Agent()
    agent.turn()
    agent.turn()
    assert done == ["dispatched"] * 2


@pytest.mark.django_db
def test_reconcile_frees_what_an_ended_attempt_holds(make_job):
    job = make_job(status=Status.SUCCEEDED)
    attempt = Attempt.objects.create(job=job, n=1, fence=1, host="elsewhere", ended_at=timezone.now())
    DeviceWatch().look()
    DeviceLease.objects.create(device=Device.objects.get(), attempt=attempt, expires_at=timezone.now())
    assert reconcile() == []
    assert not DeviceLease.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_agent_runs_a_job_and_ends_at_a_signal_without_it(bench, make_job, user):
    job = make_job(steps=100_000)
    agent = subprocess.Popen([sys.executable, "manage.py", "agent"], cwd=settings.BASE_DIR, stderr=subprocess.DEVNULL)
    bench.until_step(job, 3)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=60) == 0
    assert bench.status(job) == Status.RUNNING
    bench.until_step(job, Job.objects.get(pk=job.pk).done + 3)
    os.kill(bench.attempt(job).supervisor_pid, 0)
    services.job_cancel(user, job.pk)
    bench.until_ended(job)
    assert job.status == Status.CANCELLED


@pytest.mark.django_db(transaction=True)
def test_the_agent_wakes_what_the_stop_of_the_server_paused(bench, make_job):
    job = make_job(status=Status.PAUSED, steps=5)
    type(job).objects.filter(pk=job.pk).update(resumes_when="server")
    paused = make_job(status=Status.PAUSED)
    # The stop is still under way: an agent that is restarted meanwhile starts nothing.
    suspension.suspend()
    call_command("agent", "--once")
    assert bench.status(job) == Status.PAUSED
    (storage().run_dir / "suspended").write_text(f"{boot_id()} {os.getpid()} 0")
    agent = subprocess.Popen([sys.executable, "manage.py", "agent"], cwd=settings.BASE_DIR, stderr=subprocess.DEVNULL)
    bench.until_ended(job)
    agent.terminate()
    agent.wait(timeout=20)
    assert bench.status(paused) == Status.PAUSED
    assert not suspension.is_suspended()


@pytest.mark.django_db(transaction=True)
def test_what_was_still_saving_when_the_server_came_back_goes_on(bench, make_job, user):
    job = make_job(steps=5000)
    bench.start(job)
    bench.until_step(job, 3)
    bench.kill_supervisor(job)
    assert services.trainings_suspend() == 1
    assert services.trainings_wake() == 0
    assert bench.status(job) == Status.PAUSING
    agent = Agent()
    agent.turn()
    until(lambda: [agent.turn()] and bench.attempt(job).n == 2)
    bench.until_status(job, Status.RUNNING)
    after = [step.after for step in selectors.timeline_of(job)]
    assert after[2:] == ["running", "pausing", "paused", "queued", "starting", "running"]
    assert bench.attempt(job).from_step >= 3
    services.job_cancel(user, job.pk)
    bench.until_ended(job)


def test_ringing_without_redis_is_silent(redis_server):
    redis_server.kill()
    tasks.ring()
    stream.publish_change(1)
    assert stream.publish(1, []) is True
    assert stream.published_seq(1) is None


def test_ringing_sends_one_message(redis_server):
    from config.celery import app

    tasks.ring()
    until(lambda: stream.client().llen("celery") == 1)
    assert b"jobs.tasks.dispatch" in stream.client().lindex("celery", 0)
    assert app.conf.task_acks_late is False


@pytest.mark.django_db
def test_the_tasks_do_what_the_agent_does(monkeypatch):
    called = []
    monkeypatch.setattr(tasks, "start_what_can_start", lambda: called.append("dispatch"))
    monkeypatch.setattr(tasks, "reconcile", lambda: called.append("reconcile"))
    monkeypatch.setattr(tasks, "tidy", lambda: called.append("housekeep"))
    tasks.dispatch()
    tasks.housekeep()
    assert called == ["dispatch", "reconcile", "housekeep"]


def test_a_folder_that_cannot_be_written_is_one_clear_error(settings, tmp_path):
    assert checks.folders_can_be_written(None) == []
    (tmp_path / "file").write_text("")
    settings.DATA_DIR = tmp_path / "file" / "below"
    found = checks.folders_can_be_written(None)
    assert [(error.id, "Not a directory" in error.msg) for error in found] == [("jobs.E001", True)]
    assert "DATA_DIR" in found[0].hint
