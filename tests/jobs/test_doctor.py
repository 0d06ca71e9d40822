"""Each check: what it says of a healthy installation, and of one that is not."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models.functions import Now
from django.utils import timezone

from jobs import backup, doctor
from jobs.devices import DeviceWatch, cpu_slot
from jobs.doctor import Level, database, devices, jobs, services, storage, versions
from jobs.doctor.finding import look
from jobs.host import host_name
from jobs.hosts import HostSign
from jobs.models import Attempt, Device, Host, Job
from jobs.process import identify_self
from jobs.states import Status
from jobs.storage import storage as places
from jobs.transitions import announce

pytestmark = pytest.mark.django_db(transaction=True)


def said(check):
    """Levels and texts."""
    return [(finding.level.value, finding.text) for finding in look([check])]


def only(check):
    findings = look([check])
    assert len(findings) == 1, findings
    return findings[0]


@pytest.fixture
def agent_is_here():
    HostSign().say()
    DeviceWatch().look()


def test_a_healthy_installation_has_no_problem(redis_server, agent_is_here, make_job):
    make_job()

    findings = look(doctor.ALL)

    assert [finding for finding in findings if finding.level is Level.PROBLEM] == []
    assert {finding.area for finding in findings} == {
        *("storage", "database", "services", "devices", "versions", "jobs")
    }
    assert all(finding.step for finding in findings if finding.level is not Level.OK)


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr("jobs.doctor.storage.shutil.disk_usage", lambda _path: 1 / 0)

    first, second = look([storage.room, storage.folders])

    assert first.level is Level.PROBLEM
    assert "Could not be looked at: ZeroDivisionError" in first.text
    assert second.level is Level.OK


def test_without_a_database_it_says_so_once_and_looks_at_the_rest(monkeypatch, redis_server):
    def refuse(*_):
        raise OperationalError("connection refused\nIs the server running?")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", refuse)
        patch.setattr(connection, "ensure_connection", refuse)
        findings = {finding.name: finding for finding in look(doctor.QUICK)}

    assert findings["database.answers"].text == "The database does not answer: connection refused."
    assert findings["services.agents"].text == "Was not looked at: the database does not answer."
    assert findings["storage.writable"].level is Level.OK


def test_a_folder_that_cannot_be_written(monkeypatch, settings, tmp_path):
    assert only(storage.writable).level is only(storage.cache).level is Level.OK
    assert not [path for path in places().root.iterdir() if path.name.startswith(".doctor")]
    settings.DATA_DIR = tmp_path / "not mounted"
    (tmp_path / "file").write_text("where a folder should be")
    settings.CACHE_DIR = tmp_path / "file"
    assert [said(storage.writable), said(storage.cache)] == [
        [("problem", f"DATA_DIR {tmp_path / 'not mounted'} cannot be written: No such file or directory.")],
        [("problem", f"CACHE_DIR {tmp_path / 'file'} cannot be written: Not a directory.")],
    ]
    assert not (tmp_path / "not mounted").exists()


def test_two_looks_at_once_are_not_in_each_others_way(monkeypatch):
    fsync, looked = os.fsync, []

    def meanwhile(file):
        if not looked:
            looked.append(True)
            looked.append(only(storage.writable))
        fsync(file)

    monkeypatch.setattr(os, "fsync", meanwhile)

    assert only(storage.writable).level is looked[1].level is Level.OK


def test_little_room_is_said_before_it_is_none(monkeypatch, settings):
    settings.DISK_RESERVE_GIB = 1

    def free(gib):
        usage = shutil._ntuple_diskusage(100 * 2**30, 50 * 2**30, round(gib * 2**30))
        monkeypatch.setattr("jobs.doctor.storage.shutil.disk_usage", lambda _path: usage)
        return look([storage.room])[0].level

    assert [free(9), free(1.5), free(0.5)] == [Level.OK, Level.WARNING, Level.PROBLEM]


def test_backups_are_missed_once_there_is_something_to_lose(make_job, tmp_path):
    assert only(storage.backups).level is Level.OK
    make_job(status=Status.FAILED)
    assert only(storage.backups).text == "There is no backup."
    made = backup.back_up(tmp_path)
    assert only(storage.backups).text == (
        f"The last backup, of the database alone, was made less than an hour ago in {made}."
    )
    mark = places().backups_dir / backup.NEWEST
    told = json.loads(mark.read_text())
    mark.write_text(json.dumps({**told, "made_at": (timezone.now() - timedelta(days=9)).isoformat()}))
    assert "9 days ago" in only(storage.backups).text
    assert only(storage.backups).level is Level.WARNING
    shutil.rmtree(places().backups_dir)


def test_migrations_that_are_missing_or_of_tomorrow(monkeypatch):
    assert only(database.migrations).level is Level.OK
    with monkeypatch.context() as patch:
        patch.setattr(MigrationExecutor, "migration_plan", lambda *_: [("jobs.0099_later", False)])
        assert only(database.migrations).text == "1 migrations are not applied, jobs.0099_later the first."
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '0099_of_tomorrow', CURRENT_TIMESTAMP)"
        )
        try:
            assert "jobs.0099_of_tomorrow is not known here" in only(database.migrations).text
        finally:
            cursor.execute("DELETE FROM django_migrations WHERE name = '0099_of_tomorrow'")


def test_a_service_that_is_dead(redis_server):
    assert said(services.programs) == [("ok", "No start by make run is known here.")]
    me = identify_self()
    living = {"boot_id": me.boot_id, "pid": me.pid, "started": me.started}
    state = places().run_dir / "state.json"
    state.parent.mkdir(exist_ok=True)
    programs = {"web": living, "worker": {**living, "started": 1}}
    state.write_text(json.dumps({"address": "", "supervisord": living, "programs": programs}))

    web, worker = look([services.programs])

    assert (web.level, worker.level) == (Level.OK, Level.PROBLEM)
    assert web.text.startswith("web runs since 20")
    assert worker.text == "worker does not run."
    state.write_text(json.dumps({"address": "", "supervisord": {**living, "started": 1}, "programs": programs}))
    assert only(services.programs).text == "The last start by make run was not ended in order."


def test_redis_away(redis_server):
    assert only(services.redis).level is Level.OK
    redis_server.kill()
    assert only(services.redis).level is Level.WARNING


def test_agents_that_are_gone(agent_is_here, make_job):
    assert said(services.agents) == [("ok", f"The agent of {host_name()} is at work.")]
    Host.objects.update(seen_at=Now() - timedelta(minutes=2))
    assert [level for level, _ in said(services.agents)] == ["warning", "warning"]
    make_job()
    assert said(services.agents)[-1] == ("problem", "No agent is at work, and 1 jobs have not ended.")


def test_hosts_of_different_versions_and_clocks(agent_is_here):
    Host.objects.create(name="other", seen_at=Now(), versions={"fovea": "0.0.1"}, clock_ahead_s=-7200)

    assert any("Hosts run different versions: 0.0.1, " in text for _, text in said(services.agents))
    assert said(services.clocks) == [("problem", "The clock of other is 7,200 s behind the database's.")]


def test_devices_that_are_out_of_service():
    assert only(devices.devices).text == "No device is known."
    DeviceWatch().look()
    assert [level for level, _ in said(devices.devices)] == ["ok", "ok"]
    Device.objects.filter(uuid=cpu_slot()).update(drained=True, drained_reason="it is too hot")
    level, text = said(devices.devices)[0]
    assert level == "warning"
    assert text.endswith("is out of service: it is too hot.")


def test_packages_that_differ_from_those_that_were_tested(monkeypatch):
    def installed(package, version):
        monkeypatch.setattr(versions, "_pins", lambda: iter([("django", "5.2.19"), ("torch", "2.15.0")]))
        found = {"django": "5.2.19", "torch": "2.15.0"} | {package: version}
        monkeypatch.setattr(versions, "_installed", found.get)
        return [finding.text for finding in look([versions.packages])]

    assert installed("django", "5.2.19") == ["2 packages are those that were tested."]
    assert installed("django", "5.2.1") == ["Not the versions that were tested: django 5.2.1 instead of 5.2.19."]
    assert installed("django", None) == ["Not installed: django."]
    assert installed("torch", None)[0].startswith("PyTorch is not installed: this machine serves pages")


def test_packages_that_nothing_names_are_not_said_to_be_right(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    (finding,) = look([versions.packages])
    assert (finding.level, finding.text.partition(":")[0]) == (Level.WARNING, "requirements/base.in is not there")


def test_jobs_that_are_stuck(make_job, settings):
    running, ended, silent = (make_job(status=Status.RUNNING) for _ in range(3))
    assert only(jobs.stuck).text == f"jobs #{running.pk}, #{ended.pk}, #{silent.pk} should run, and nothing does."
    for job in (running, ended, silent):
        Attempt.objects.create(job=job, n=1, fence=1, host="here", heartbeat_at=timezone.now())
    assert only(jobs.stuck).level is Level.OK
    Job.objects.filter(pk=ended.pk).update(status=Status.FAILED)
    long_ago = timezone.now() - timedelta(seconds=3 * settings.LEASE_S)
    Attempt.objects.filter(job=silent).update(heartbeat_at=long_ago)
    assert [text for _, text in said(jobs.stuck)] == [
        f"job #{ended.pk} have ended, and an attempt has not.",
        f"Nobody looks after job #{silent.pk}.",
    ]


def test_folders_without_rows_and_rows_without_folders(make_job):
    job = make_job()
    assert only(jobs.orphans).level is Level.OK
    Attempt.objects.create(job=job, n=1, fence=1, host="here")
    shutil.move(places().job(job.pk).path, places().job(job.pk + 7).path)
    unknown, lost = look([jobs.orphans])
    assert str(places().job(job.pk + 7).path) in unknown.text
    assert lost.text == f"The files of job #{job.pk} are gone."


def test_records_that_are_behind(make_job):
    job = make_job()
    assert only(jobs.records).level is Level.OK
    Job.objects.update(title="changed past the services")
    assert only(jobs.records).text == f"The record.json of job #{job.pk} does not say what the database says."
    announce(job.pk)
    assert only(jobs.records).level is Level.OK


def test_the_command_ends_with_one_on_a_problem(redis_server, agent_is_here, make_job, capsys, monkeypatch):
    call_command("doctor")
    assert "ok       Redis answers." in capsys.readouterr().out
    make_job(status=Status.RUNNING)

    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json")

    assert ended.value.code == 1
    findings = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in findings if one["level"] == "problem"] == ["jobs.stuck"]
    assert os.listdir(places().job(Job.objects.get().pk).path) == ["record.json"]  # noqa: PTH208
