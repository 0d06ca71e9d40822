"""Two hosts that share a database and a folder: who may work on a job when one of them is frozen, gone or cut off."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from datetime import timedelta

import psutil
import pytest
from django.db import connection

from jobs import leases
from jobs.models import Attempt, Host
from jobs.process import is_locked
from jobs.recorder import StaleFence, record
from tests.faults.clocks import DatabaseClock, HostClock
from tests.faults.hosts import OTHER, OtherHost, forwarded, network
from tests.faults.ledger import fault
from tests.surroundings import until

LEASE_S = 6.0
"""Long enough for a busy test machine to renew it in time."""


@pytest.fixture
def short_lease(settings, monkeypatch):
    settings.LEASE_S = LEASE_S
    monkeypatch.setenv("LEASE_S", str(LEASE_S))


@pytest.fixture
def clock(tmp_path):
    return HostClock(tmp_path)


@pytest.fixture
def other(postgres, scene, short_lease):
    """A second host that works."""
    _require_names_of_hosts()
    host = OtherHost(scene)
    host.start()
    return host


def _require_names_of_hosts():
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--uts", "true"], check=False).returncode:
        pytest.skip("this machine allows no host of another name (unshare --uts needs root)")


def submit(scene, **script):
    return scene.submit(**{"steps": 400, "step_s": 0.02, **script})


def refused(attempt):
    """Whatever is written for the attempt comes to nothing."""
    with pytest.raises(StaleFence):
        record(attempt, [])
    with pytest.raises(StaleFence):
        leases.renew(attempt)
    assert not leases.held(attempt).update(pid=1)


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@fault("34", how="scripted", inject="SIGKILL to agent, supervisor and trainer of a second host")
def test_the_work_of_a_host_that_is_gone_goes_on_elsewhere(scene, other):
    """Another host goes on from the checkpoint once the lease is over, and what comes back finds nothing to do."""
    job = submit(scene)
    first = other.begins(job, step=10)
    other.vanish()
    scene.until(lambda: scene.attempt(job).n == 2)
    first.refresh_from_db()
    assert first.reason == f"lost: its process was on {OTHER}, which did not renew its lease"
    assert scene.attempt(job).host != OTHER
    refused(first)
    other.start()
    scene.finish(job)
    scene.check(job)
    assert scene.after(job)[3:6] == ["lost", "queued", "starting"]


@fault("7", how="scripted", inject="SIGSTOP to the supervisor for longer than its lease, then SIGCONT")
def test_a_supervisor_that_was_frozen_finds_that_it_is_not_wanted(scene, other):
    """Its trainer has saved and stopped itself, a new attempt goes on there, and what it writes later is refused."""
    job = submit(scene, checkpoint_every=1000)
    first = other.begins(job, step=10)
    os.kill(first.supervisor_pid, signal.SIGSTOP)
    scene.until(lambda: scene.attempt(job).n == 2)
    assert is_gone(first.pid)
    refused(first)
    scene.until(lambda: scene.attempt(job).started_seq)
    os.kill(first.supervisor_pid, signal.SIGCONT)
    until(lambda: is_gone(first.supervisor_pid))
    assert f"attempt={first.pk} is not wanted any more" in scene.supervisor_output(job)
    scene.finish(job)
    scene.check(job)
    first, second = scene.attempts(job)
    assert first.reason == "interrupted: it stopped though nobody had asked"
    assert second.from_step >= 10


@fault("7", title="Supervisor and trainer stopped together", how="scripted", inject="SIGSTOP to both, then SIGCONT")
def test_a_trainer_that_was_frozen_too_dies_before_its_next_step(scene, other):
    """While it is frozen nobody starts, because it holds the folder; when it goes on it makes not one step more."""
    job = submit(scene)
    first = other.begins(job, step=10)
    folder = scene.folder(job)
    for pid in (first.supervisor_pid, first.pid):
        os.kill(pid, signal.SIGSTOP)
    seen = leases.Watch()
    scene.until(lambda: first.pk in {attempt.pk for attempt in seen.expired()})
    for _ in range(5):
        scene.turn()
    assert is_locked(folder.lock_path)
    assert len(scene.attempts(job)) == 1
    before = (folder.attempt(1).path / "lived").read_text()
    os.kill(first.pid, signal.SIGCONT)
    until(lambda: is_gone(first.pid))
    assert (folder.attempt(1).path / "lived").read_text() == before
    scene.until(lambda: scene.attempt(job).n == 2)
    os.kill(first.supervisor_pid, signal.SIGCONT)
    scene.finish(job)
    scene.check(job)
    first.refresh_from_db()
    assert first.reason == f"lost: its process was on {OTHER}, which did not renew its lease"


@fault("35", how="scripted", inject="a network namespace whose link is taken down for longer than the lease")
def test_a_host_that_is_cut_off_stops_its_trainer_and_comes_back(postgres, scene, short_lease):
    """Its trainer ends before the other host begins, its late writes are refused, and then it works again."""
    _require_names_of_hosts()
    name = os.environ["DATABASE_URL"].rpartition("/")[2]
    with network() as link, forwarded(postgres.folder / f".s.PGSQL.{postgres.port}") as (address, port):
        other = OtherHost(scene, network=link, DATABASE_URL=f"postgres://fovea@{address}:{port}/{name}")
        other.start()
        job = submit(scene)
        first = other.begins(job, step=10)
        link.cut()
        scene.until(lambda: scene.attempt(job).n == 2)
        assert is_gone(first.pid)
        refused(first)
        assert not is_gone(first.supervisor_pid)
        scene.until(lambda: scene.attempt(job).started_seq)
        link.mend()
        until(lambda: is_gone(first.supervisor_pid))
        assert f"attempt={first.pk} is not wanted any more" in scene.supervisor_output(job)
        scene.finish(job)
        assert len(scene.attempts(job)) == 2
        again = submit(scene, steps=12)
        attempt = until(lambda: Attempt.objects.filter(job=again).first())
        assert attempt.host == OTHER
        scene.finish(again)
        scene.check(job, again)


@fault("16", title="One host alone: the database is away for longer than a lease", how="scripted", inject="pg_ctl stop")
def test_one_host_trains_on_while_the_database_is_away(postgres, scene, short_lease):
    """The same process makes every step, and what it said meanwhile is recorded afterwards; nothing is queued again."""
    job = submit(scene)
    first = scene.start(job)
    scene.until_step(job, 3)
    first.refresh_from_db()
    assert first.lease_expires_at is None
    lived = scene.folder(job).attempt(1).path / "lived"
    postgres.crash()
    steps = len(lived.read_text().split())
    until(lambda: len(lived.read_text().split()) > steps + 1.5 * LEASE_S / 0.03)
    postgres.start()
    scene.finish(job)
    scene.check(job)
    assert len(scene.attempts(job)) == 1


@fault("16", title="Several hosts: the database is away for longer than a lease", how="scripted", inject="pg_ctl stop")
def test_after_an_outage_nobody_is_taken_for_dead(postgres, scene, other):
    """The trainer saves and ends by itself; its own supervisor closes the attempt when the database is back."""
    job = submit(scene)
    first = other.begins(job, step=10)
    postgres.crash()
    until(lambda: is_gone(first.pid))
    for _ in range(5):
        scene.turn()
    postgres.start()
    scene.finish(job)
    scene.check(job)
    first.refresh_from_db()
    assert first.reason == "interrupted: it stopped though nobody had asked"
    assert len(scene.attempts(job)) == 2


@fault("36", title="A host's clock is two hours ahead, then behind", how="simulated", inject="its wall clock")
def test_a_clock_that_is_hours_wrong_changes_nothing(postgres, scene, short_lease, clock):
    """Nothing expires early or starts twice, a lost job is tried again at once, and no duration is negative."""
    _require_names_of_hosts()
    clock.jump(7200)
    other = OtherHost(scene, **clock.environment)
    other.start()
    assert abs(Host.objects.get(name=OTHER).clock_ahead_s - 7200) < 60
    job = submit(scene, steps=150, crash_at={"1": 40})
    first = other.begins(job, step=5)
    clock.jump(-7200)
    until(lambda: scene.attempt(job).n == 2)
    second = scene.attempt(job)
    scene.until_ended(job)
    other.vanish()
    scene.check(job)
    first.refresh_from_db()
    assert first.reason == "lost: its process was killed by SIGKILL"
    assert (first.host, second.host) == (OTHER, OTHER)
    assert timedelta() <= second.started_at - first.ended_at < timedelta(minutes=10)
    assert all(attempt.ended_at >= attempt.started_at for attempt in scene.attempts(job))


@fault("36", title="The database's clock jumps by two hours", how="simulated", inject="STATEMENT_TIMESTAMP() replaced")
def test_a_database_whose_clock_jumps_ends_no_lease(postgres, scene, short_lease):
    """The trainer of the other host goes on, and when the clock is set back a host that is gone is still noticed."""
    _require_names_of_hosts()
    server = DatabaseClock(os.environ["DATABASE_URL"])
    connection.close()
    other = OtherHost(scene)
    other.start()
    job = submit(scene, steps=2000)
    first = other.begins(job, step=5)
    server.jump(2)
    beats = {first.heartbeat_at}
    scene.until(lambda: beats.add(scene.attempt(job).heartbeat_at) or len(beats) > 8)
    assert len(scene.attempts(job)) == 1
    assert not is_gone(first.pid)
    other.vanish()
    server.jump(-2)
    scene.until(lambda: scene.attempt(job).n == 2)
    first.refresh_from_db()
    assert first.reason == f"lost: its process was on {OTHER}, which did not renew its lease"
    scene.until(lambda: scene.attempt(job).started_seq)
