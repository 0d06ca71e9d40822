from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.models import Count
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import dispatch as dispatch_module
from jobs import host, launch, retry, suspension
from jobs.devices import DeviceWatch, cpu_slot
from jobs.dispatch import MOST_IMPORTS, dispatch
from jobs.host import host_name
from jobs.models import Attempt, Device, DeviceLease, Job
from jobs.process import boot_id
from jobs.states import Status
from jobs.stream import publish_change
from tests.surroundings import until


@pytest.fixture
def no_processes(monkeypatch):
    """Claims only; what a supervisor does is tested with real ones elsewhere."""
    started = []
    monkeypatch.setattr(launch, "start_supervisor", started.append)
    return started


def gpu(n, **columns):
    return Device.objects.create(
        uuid=f"GPU-{n}", host=host_name(), kind="cuda", name=f"GPU {n} (Test)", seen_at=timezone.now(), **columns
    )


def statuses(*jobs):
    return [Status(Job.objects.get(pk=job.pk).status) for job in jobs]


def reason(job):
    return Job.objects.get(pk=job.pk).wait_reason


@pytest.mark.django_db
def test_one_training_on_the_cpu_the_others_are_told_why_they_wait(make_job, no_processes):
    first, second, third = make_job(), make_job(), make_job()
    assert len(dispatch()) == 1
    assert statuses(first, second, third) == [Status.STARTING, Status.QUEUED, Status.QUEUED]
    attempt = Attempt.objects.get()
    assert (attempt.job, attempt.n, attempt.fence, attempt.host) == (first, 1, 1, host_name())
    lease = DeviceLease.objects.get()
    assert (lease.attempt, lease.device.uuid) == (attempt, cpu_slot())
    assert lease.expires_at > timezone.now()
    assert attempt.devices == [lease.device.name]
    assert reason(second).startswith("Waiting for CPU (")
    assert reason(second).endswith(f"): run {first.pk} “scripted train” is using it; next in the queue")
    assert reason(third).endswith("; 1 ahead in the queue")
    assert dispatch() == []


@pytest.mark.django_db
def test_the_title_of_a_private_run_is_not_told(make_job, no_processes):
    Job.objects.filter(pk=make_job().pk).update(private=True)
    other = make_job()
    dispatch()
    assert "a private run is using it" in reason(other)


@pytest.mark.django_db
def test_priority_goes_before_age(make_job, no_processes):
    old, urgent = make_job(), make_job()
    Job.objects.filter(pk=urgent.pk).update(priority=5)
    dispatch()
    assert statuses(old, urgent) == [Status.QUEUED, Status.STARTING]


@pytest.mark.django_db
def test_imports_need_no_device_and_two_run_at_once(make_job, no_processes):
    training = make_job()
    imports = [make_job(verb="import") for _ in range(4)]
    dispatch()
    assert statuses(training, *imports) == [Status.STARTING] * (1 + MOST_IMPORTS) + [Status.QUEUED] * 2
    assert reason(imports[-1]) == "Waiting for one of 2 running imports to end; 1 ahead in the queue"


@pytest.mark.django_db
def test_any_means_a_gpu_where_there_is_one(make_job, no_processes):
    gpu(0)
    gpu(1)
    jobs = [make_job() for _ in range(3)]
    Job.objects.update(wants=["any"])
    dispatch()
    assert statuses(*jobs) == [Status.STARTING, Status.STARTING, Status.QUEUED]
    assert set(DeviceLease.objects.values_list("device__uuid", flat=True)) == {"GPU-0", "GPU-1"}
    assert reason(jobs[2]) == "Waiting for one of 2 devices: all are in use; next in the queue"


@pytest.mark.django_db
def test_the_asked_device_and_no_other(make_job, no_processes):
    gpu(0)
    gpu(1, drained=True)
    zero, one, again, foreign = (make_job() for _ in range(4))
    for job, wanted in ((zero, "GPU-0"), (one, "GPU-1"), (again, "GPU-0"), (foreign, "GPU-9")):
        Job.objects.filter(pk=job.pk).update(wants=[wanted])
    dispatch()
    assert statuses(zero, one, again, foreign) == [Status.STARTING, *[Status.QUEUED] * 3]
    assert "an administrator has taken it out of service" in reason(one)
    assert reason(again).startswith(f"Waiting for GPU 0 (Test): run {zero.pk} ")
    assert reason(foreign) == "None of the devices it asks for is on this host: GPU-9"


@pytest.mark.django_db
def test_a_classification_runs_beside_trainings_and_imports_and_one_at_a_time(make_job, no_processes):
    training, evaluation = make_job(), make_job(verb="evaluate")
    imports = [make_job(verb="import") for _ in range(3)]
    first, second, third = (make_job(verb="classify") for _ in range(3))
    assert len(dispatch()) == 1 + MOST_IMPORTS + 1
    assert statuses(training, first, second, third) == [Status.STARTING] * 2 + [Status.QUEUED] * 2
    assert statuses(*imports) == [Status.STARTING] * 2 + [Status.QUEUED]
    assert reason(second) == "Waiting for another classification to end; next in the queue"
    assert reason(third) == "Waiting for another classification to end; 1 ahead in the queue"
    assert reason(imports[2]) == "Waiting for one of 2 running imports to end; next in the queue"
    assert reason(evaluation).endswith(f"run {training.pk} “scripted train” is using it; next in the queue")
    assert not DeviceLease.objects.filter(attempt__job=first).exists()
    Attempt.objects.filter(job=first).update(ended_at=timezone.now())
    Job.objects.filter(pk=first.pk).update(status=Status.SUCCEEDED)
    assert len(dispatch()) == 1
    assert statuses(second, third) == [Status.STARTING, Status.QUEUED]


@pytest.mark.django_db
def test_an_evaluation_takes_a_device_and_goes_first(make_job, no_processes):
    training, evaluation = make_job(), make_job(verb="evaluate")
    Job.objects.filter(pk=evaluation.pk).update(priority=10, wants=["cpu"])
    dispatch()
    assert statuses(training, evaluation) == [Status.QUEUED, Status.STARTING]
    assert DeviceLease.objects.get().attempt.job == evaluation
    assert f"evaluation {evaluation.pk} “scripted evaluate” is using it" in reason(training)
    Job.objects.filter(pk=evaluation.pk).update(private=True)
    dispatch()
    assert "a private evaluation is using it" in reason(training)


@pytest.mark.django_db
def test_a_gpu_that_is_gone_is_not_used(make_job, no_processes):
    gpu(0)
    Device.objects.filter(uuid="GPU-0").update(seen_at=timezone.now() - timedelta(minutes=5))
    job = make_job()
    Job.objects.update(wants=["any"])
    dispatch()
    assert DeviceLease.objects.get().device.uuid == cpu_slot()
    assert statuses(job) == [Status.STARTING]


@pytest.mark.django_db
def test_nothing_starts_while_the_server_is_being_stopped(make_job, no_processes):
    job = make_job()
    suspension.suspend()
    assert dispatch() == []
    suspension.lift()
    assert len(dispatch()) == 1
    assert statuses(job) == [Status.STARTING]


@pytest.mark.django_db
def test_a_lost_job_is_tried_at_once_and_then_ever_later(make_job, no_processes):
    job = make_job()
    for n, delay_s in enumerate((0, 5, 20, 60), 1):
        ended_at = timezone.now()
        Attempt.objects.create(job=job, n=n, fence=n, host="h", ended_at=ended_at, reason="lost: its process ended")
        assert retry.n_fruitless(job.pk) == n
        assert retry.not_before(job) == (ended_at + timedelta(seconds=delay_s) if delay_s else None)
    dispatch()
    assert statuses(job) == [Status.QUEUED]
    assert reason(job).startswith("Its process was lost; the next attempt begins at ")
    Attempt.objects.update(ended_at=timezone.now() - timedelta(minutes=2))
    dispatch()
    assert statuses(job) == [Status.STARTING]
    assert Attempt.objects.latest("n").fence == 5


@pytest.mark.django_db
def test_progress_and_a_wish_begin_the_count_anew(make_job):
    job = make_job()
    now = timezone.now()
    for n, (started_seq, why) in enumerate([(1, "lost: x"), (10, "lost: x"), (20, "lost: x"), (30, "lost: x")], 1):
        Attempt.objects.create(job=job, n=n, fence=n, host="h", ended_at=now, started_seq=started_seq, reason=why)
    assert retry.n_fruitless(job.pk) == 4
    job.events.create(seq=15, at=now, kind="artifact.made", body={})
    assert retry.n_fruitless(job.pk) == 2
    Attempt.objects.filter(job=job, n=4).update(reason="paused as asked")
    assert retry.n_fruitless(job.pk) == 0


@pytest.mark.django_db
def test_a_lease_of_an_ended_attempt_blocks_no_device(make_job, no_processes):
    first, second = make_job(), make_job()
    dispatch()
    Attempt.objects.update(ended_at=timezone.now() - timedelta(minutes=2))
    assert len(dispatch()) == 1
    assert statuses(first, second) == [Status.STARTING, Status.STARTING]
    assert DeviceLease.objects.get().attempt.job == second


@pytest.mark.django_db
def test_the_cpu_under_its_earlier_name_is_still_in_use(make_job, no_processes, monkeypatch):
    monkeypatch.setattr(host, "connection", SimpleNamespace(vendor="sqlite"))
    first, second = make_job(), make_job()
    dispatch()
    Device.objects.update(uuid="cpu:before:0", host="before")
    Attempt.objects.update(host="before", boot_id=boot_id())
    assert dispatch() == []
    assert f"run {first.pk} “scripted train” is using it" in reason(second)


@pytest.mark.django_db
def test_far_back_in_the_queue_the_place_is_not_counted(make_job, no_processes, monkeypatch):
    monkeypatch.setattr(dispatch_module, "MOST_COUNTED", 2)
    jobs = [make_job() for _ in range(6)]
    dispatch()
    ends = [
        "next in the queue",
        "1 ahead in the queue",
        "2 ahead in the queue",
        *["more than 2 ahead in the queue"] * 2,
    ]
    assert [reason(job).partition("; ")[2] for job in jobs[1:]] == ends


@pytest.mark.django_db
def test_a_queue_that_waits_costs_the_same_however_long(make_job, no_processes):
    def cost(n_jobs):
        for _ in range(n_jobs):
            make_job()
        dispatch()
        with CaptureQueriesContext(connection) as captured:
            assert dispatch() == []
        statements = [query["sql"] for query in captured]
        assert not any(sql.startswith(("UPDATE", "INSERT", "DELETE", "BEGIN", "SAVEPOINT")) for sql in statements)
        return len(statements)

    assert cost(3) == cost(30)


@pytest.mark.django_db
def test_open_pages_hear_of_some_changes_only(make_job, no_processes, monkeypatch, django_capture_on_commit_callbacks):
    monkeypatch.setattr(dispatch_module, "MOST_ANNOUNCED", 3)
    for _ in range(8):
        make_job()
    with django_capture_on_commit_callbacks() as announced:
        dispatch()
    assert sum(call.func is publish_change for call in announced) == 1 + 3
    assert not Job.objects.filter(status=Status.QUEUED, wait_reason="").exists()


@pytest.mark.django_db
def test_a_place_that_was_taken_meanwhile_is_not_claimed(make_job, no_processes):
    gpu(0)
    job, other = make_job(), make_job()
    Job.objects.update(wants=["any"])
    DeviceWatch().look()
    plan = dispatch_module._look_over_the_queue()
    assert [found.pk for found, _ in plan.placed] == [job.pk]
    holder = Attempt.objects.create(job=other, n=1, fence=1, host=host_name())
    lease = DeviceLease.objects.create(
        device=Device.objects.get(uuid="GPU-0"), attempt=holder, expires_at=timezone.now()
    )
    assert dispatch_module._claim_what_fits(plan.placed) == []
    lease.delete()
    Device.objects.filter(uuid="GPU-0").update(drained=True)
    assert dispatch_module._claim_what_fits(plan.placed) == []
    assert statuses(job) == [Status.QUEUED]


RACE = """
import django; django.setup()
import sys
from jobs import launch
from jobs.dispatch import dispatch
launch.start_supervisor = lambda attempt: None
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    dispatch()
"""


def _as_many_as_possible(n_racers):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(n_racers)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        racer.communicate(timeout=60)
        assert racer.returncode == 0


@pytest.mark.django_db(transaction=True)
def test_many_processes_claim_each_job_and_each_device_once(make_job, no_processes):
    for n in range(4):
        gpu(n)
    jobs = [make_job() for _ in range(7)] + [make_job(verb="import") for _ in range(5)]
    Job.objects.filter(verb="train").update(wants=["any"])
    _as_many_as_possible(4)
    found = statuses(*jobs)
    assert found.count(Status.STARTING) == 4 + MOST_IMPORTS
    assert found.count(Status.QUEUED) == 3 + 3
    assert Attempt.objects.count() == 6
    assert not Attempt.objects.values("job").annotate(n=Count("pk")).filter(n__gt=1).exists()
    assert DeviceLease.objects.count() == 4
    assert [step.before for step in jobs[0].transitions.order_by("pk")] == ["", "queued"]


@pytest.mark.django_db(transaction=True)
def test_two_threads_begin_one_supervisor_each_job(make_job, no_processes):
    for _ in range(3):
        make_job()
    for n in range(3):
        gpu(n)
    Job.objects.update(wants=["any"])
    faults = []

    def run():
        try:
            dispatch()
        except Exception as fault:  # noqa: BLE001 - whatever it is, the test shows it
            faults.append(fault)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(no_processes) == 3 == len({attempt.job_id for attempt in no_processes})


@pytest.mark.django_db
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_on_a_full_disk_a_supervisor_needs_no_log_to_say_what_becomes_of_the_attempt(make_job, monkeypatch, number):
    attempt = Attempt.objects.create(job=make_job(status=Status.STARTING), n=1, fence=1, host=host_name())
    outputs = []

    def refuse(path, **_):
        raise OSError(number, os.strerror(number), str(path))

    def start(_command, *, stdout, **_):
        outputs.append(stdout.name)
        return SimpleNamespace(pid=0, poll=lambda: 0)

    monkeypatch.setattr(launch.subprocess, "Popen", start)
    monkeypatch.setattr(launch.Path, "mkdir", refuse)
    if number == errno.EACCES:
        with pytest.raises(PermissionError):
            launch.start_supervisor(attempt)
    else:
        launch.start_supervisor(attempt)
    assert outputs == ([] if number == errno.EACCES else [os.devnull])


@pytest.mark.django_db(transaction=True)
def test_of_two_supervisors_of_one_attempt_one_goes(bench, make_job):
    job = make_job(steps=60)
    attempt = bench.start(job)
    launch.start_supervisor(Attempt.objects.get(pk=attempt.pk))
    launch.start_supervisor(Attempt.objects.get(pk=attempt.pk))
    bench.until_ended(job)
    assert job.status == Status.SUCCEEDED
    assert bench.supervisor_output(job).count("started job=") == 1
    until(lambda: launch.reap() or not launch._children)
