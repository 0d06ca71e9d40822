from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError
from django.db.models.functions import Now
from django.utils import timezone

from jobs import dispatch as dispatch_module
from jobs import host, launch, leases
from jobs.dispatch import dispatch
from jobs.models import Attempt, Device, DeviceLease, Host, Job
from jobs.process import identify_self
from jobs.recorder import StaleFence, record
from jobs.states import Status
from jobs.supervision.disk import keep_taken_bytes
from jobs.supervision.ending import close_by_exit
from jobs.supervision.engine import Exit

LEASE_S = 60.0
OVER = timedelta(seconds=-1)


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock):
    return leases.Watch(clock)


@pytest.fixture
def held(make_job):
    """An attempt of another host, last renewed so long ago by the database's clock that its lease is over."""

    def make(*, ends=OVER, length_s=LEASE_S, **columns):
        now = timezone.now()
        times = {"heartbeat_at": now + ends - timedelta(seconds=length_s), "lease_expires_at": now + ends}
        job = make_job(status=Status.RUNNING)
        return Attempt.objects.create(job=job, n=1, fence=1, host="elsewhere", **{**times, **columns})

    return make


def look_for(watch, clock, seconds, *, every_s=2.0):
    """What an agent does; gives what was expired at the last look."""
    found = []
    for _ in range(int(seconds / every_s)):
        clock.now_s += every_s
        found = watch.expired()
    return found


@pytest.mark.django_db
def test_nobody_is_given_up_before_a_whole_lease_was_watched(watch, clock, held):
    attempt = held()
    assert watch.expired() == []
    assert look_for(watch, clock, LEASE_S) == []
    assert look_for(watch, clock, 2) == [attempt]


@pytest.mark.django_db
def test_a_renewal_begins_the_count_anew(watch, clock, held):
    attempt = held()
    watch.expired()
    look_for(watch, clock, LEASE_S - 2)
    Attempt.objects.update(heartbeat_at=attempt.heartbeat_at + timedelta(seconds=5))
    assert look_for(watch, clock, LEASE_S) == []
    assert look_for(watch, clock, 4) == [attempt]


@pytest.mark.django_db
def test_a_database_clock_that_is_ahead_ends_no_lease_and_one_that_was_set_back_keeps_none(watch, clock, held):
    running, gone = held(ends=timedelta(hours=-2)), held(ends=timedelta(hours=2))
    for _ in range(60):
        Attempt.objects.filter(pk=running.pk).update(heartbeat_at=Now() - timedelta(hours=2))
        found = look_for(watch, clock, 2)
    assert [attempt.pk for attempt in found] == [gone.pk]


@pytest.mark.django_db
def test_a_lease_that_the_database_says_is_not_over_is_not(watch, clock, held):
    held(ends=timedelta(seconds=30))
    watch.expired()
    assert look_for(watch, clock, 10 * LEASE_S) == []


@pytest.mark.django_db
def test_a_watcher_that_looked_away_begins_anew(watch, clock, held):
    attempt = held()
    watch.expired()
    look_for(watch, clock, LEASE_S - 2)
    clock.now_s += 600
    assert watch.expired() == []
    assert look_for(watch, clock, LEASE_S) == []
    assert look_for(watch, clock, 2) == [attempt]


@pytest.mark.django_db
def test_after_an_outage_everybody_has_a_whole_lease(watch, clock, held, monkeypatch):
    held()
    watch.expired()
    look_for(watch, clock, LEASE_S)

    def away():
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(leases, "_watched", away)
        with pytest.raises(OperationalError):
            watch.expired()
    assert look_for(watch, clock, LEASE_S) == []


@pytest.mark.django_db
def test_the_length_is_the_holder_s_own(watch, clock, held):
    attempt = held(length_s=300.0)
    watch.expired()
    assert look_for(watch, clock, 300) == []
    assert look_for(watch, clock, 2) == [attempt]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("vendor", "seen_hours_ago", "given_up"),
    [
        ("postgresql", 23, False),
        ("postgresql", 25, True),
        ("postgresql", None, True),
        ("sqlite", None, False),
    ],
)
def test_an_attempt_without_a_lease_is_its_host_s_until_that_is_gone(
    watch, clock, held, monkeypatch, vendor, seen_hours_ago, given_up
):
    monkeypatch.setattr(host, "connection", SimpleNamespace(vendor=vendor))
    if seen_hours_ago is not None:
        Host.objects.create(name="elsewhere", seen_at=timezone.now() - timedelta(hours=seen_hours_ago))
    attempt = held(lease_expires_at=None)
    watch.expired()
    assert look_for(watch, clock, LEASE_S) == []
    assert look_for(watch, clock, 2) == ([attempt] if given_up else [])


@pytest.mark.django_db
def test_one_that_was_renewed_in_the_last_moment_is_not_closed(held):
    attempt = held()
    Attempt.objects.update(heartbeat_at=timezone.now())
    assert not close_by_exit(attempt, Exit(), only=leases.unrenewed(attempt))
    attempt.refresh_from_db()
    assert attempt.ended_at is None
    assert close_by_exit(attempt, Exit(), only=leases.unrenewed(attempt))
    assert Status(Job.objects.get().status) is Status.QUEUED


@pytest.mark.django_db
def test_every_write_for_an_attempt_that_is_over_is_refused(held, tmp_path):
    attempt = held()
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    keep_taken_bytes(attempt, tmp_path)
    taken = Job.objects.get().disk_bytes
    assert taken
    assert close_by_exit(attempt, Exit())
    (tmp_path / "more").write_bytes(b"x" * 50_000)
    keep_taken_bytes(attempt, tmp_path)
    job = Job.objects.get()
    assert job.disk_bytes != taken + 50_000
    with pytest.raises(StaleFence):
        record(attempt, [])
    with pytest.raises(StaleFence):
        leases.renew(attempt)
    assert not close_by_exit(attempt, Exit(code=0))
    assert leases.held(attempt).update(pid=1) == 0
    assert launch.claim(attempt.pk) is None
    assert Status(job.status) is Status.QUEUED


@pytest.mark.django_db
def test_renewing_holds_attempt_and_device_and_tells_a_newer_supervisor_from_an_end(held):
    me = identify_self()
    attempt = held(supervisor_pid=me.pid, supervisor_started=me.started)
    device = Device.objects.create(uuid="GPU-0", host="elsewhere", kind="cuda", name="GPU 0", seen_at=timezone.now())
    lease = DeviceLease.objects.create(device=device, attempt=attempt, expires_at=timezone.now() + OVER)
    deadlines = leases.renew(attempt)
    assert deadlines.end_at_s - deadlines.save_at_s == pytest.approx(LEASE_S / 6)
    attempt.refresh_from_db()
    lease.refresh_from_db()
    for until in (attempt.lease_expires_at, lease.expires_at):
        assert timedelta(seconds=50) < until - timezone.now() < timedelta(seconds=61)
    Attempt.objects.update(supervisor_started=me.started + 1)
    with pytest.raises(leases.Superseded):
        leases.renew(attempt)
    Attempt.objects.update(ended_at=Now())
    with pytest.raises(StaleFence):
        leases.renew(attempt)


@pytest.fixture
def shared(monkeypatch):
    """The test's database as if other hosts could use it."""
    monkeypatch.setattr(host, "connection", SimpleNamespace(vendor="postgresql"))
    monkeypatch.setattr(dispatch_module, "database_now", timezone.now)
    monkeypatch.setattr("jobs.devices.database_now", timezone.now)
    started = []
    monkeypatch.setattr(launch, "start_supervisor", started.append)
    return started


def device(uuid, *, at="elsewhere", kind="cuda", seen_at=None):
    return Device.objects.create(
        uuid=uuid, host=at, kind=kind, name=f"{kind} of {at}", seen_at=seen_at or timezone.now()
    )


def reason(job):
    return Job.objects.get(pk=job.pk).wait_reason


@pytest.mark.django_db
def test_an_attempt_is_leased_where_another_host_was_seen(make_job, shared):
    first, second = make_job(), make_job(verb="import")
    Job.objects.filter(pk=second.pk).update(status=Status.WAITING)
    dispatch()
    assert Attempt.objects.get(job=first).lease_expires_at is None
    Host.objects.create(name="elsewhere", seen_at=timezone.now() - timedelta(hours=3))
    Job.objects.filter(pk=second.pk).update(status=Status.QUEUED)
    dispatch()
    assert Attempt.objects.get(job=second).lease_expires_at > timezone.now()


@pytest.mark.django_db
def test_a_job_for_another_host_s_device_is_left_to_that_host(make_job, shared):
    job = make_job()
    device("GPU-B")
    Job.objects.update(wants=["GPU-B"])
    assert dispatch() == []
    assert reason(job) == ""
    Device.objects.filter(uuid="GPU-B").update(seen_at=timezone.now() - timedelta(minutes=5))
    dispatch()
    assert reason(job) == "None of the devices it asks for is on this host: GPU-B"


@pytest.mark.django_db
def test_any_device_means_the_gpu_of_another_host_before_the_cpu_of_this_one(make_job, shared):
    job = make_job()
    device("GPU-B")
    Job.objects.update(wants=["any"])
    assert dispatch() == []
    assert Status(Job.objects.get(pk=job.pk).status) is Status.QUEUED


@pytest.mark.django_db
@pytest.mark.parametrize("other_is_first", [False, True])
def test_one_of_several_hosts_says_why_a_job_waits(make_job, shared, other_is_first):
    name = "!" if other_is_first else "~"
    make_job()
    waiting = make_job()
    dispatch()
    Job.objects.filter(pk=waiting.pk).update(wait_reason="")
    device(f"cpu:{name}:0", at=name, kind="cpu")
    dispatch()
    assert (reason(waiting) == "") is other_is_first


@pytest.mark.django_db
def test_a_folder_of_one_host_is_read_there(make_job, shared, tmp_path):
    job = make_job(verb="import")
    device("GPU-B", at="~")
    Job.objects.update(spec={"verb": "import", "source": {"kind": "folder", "path": "/only/there"}})
    assert dispatch() == []
    assert reason(job) == "Waiting for a host on which /only/there can be read"
    Job.objects.update(spec={"verb": "import", "source": {"kind": "folder", "path": str(tmp_path)}})
    assert len(dispatch()) == 1


@pytest.mark.django_db
def test_no_host_looks_after_another_host_s_attempt(make_job, shared):
    attempt = Attempt.objects.create(job=make_job(status=Status.STARTING), n=1, fence=1, host="elsewhere")
    assert launch.claim(attempt.pk) is None
    attempt.refresh_from_db()
    assert attempt.supervisor_pid is None
