"""The database killed, crowded, in conflict, cut off and full, under a running installation."""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import psycopg
import pytest
from django.db import OperationalError, connection
from django.test import Client

from jobs import stream
from jobs.database import MOST_REPEATS, Trouble, atomically, trouble_of
from jobs.models import Job, Submission
from jobs.services import job_annotate, job_cancel, job_rename
from jobs.states import Status
from tests.faults.cluster import django_on
from tests.faults.commit_proxy import CommitProxy
from tests.faults.disks import MIB, SmallDisk
from tests.faults.ledger import fault
from tests.faults.sockets import Follower
from tests.faults.web import served
from tests.surroundings import until


@pytest.fixture
def page(user, settings, plain_static_names):
    """A browser that is signed in, and asks the database anew each time."""
    browser = Client(raise_request_exception=False)
    browser.force_login(user)

    def get(path, **form):
        connection.close()
        return browser.post(path, form) if form else browser.get(path)

    return get


def stop(scene, job):
    """However slow the machine is, what happened to the job happened while it ran."""
    job_cancel(job.owner, job.pk)
    scene.finish(job)


def wish(dataset, **changes):
    return {"dataset": dataset.pk, "model": {"name": "lenet5"}, "title": "wished", **changes}


@fault("15", how="real", inject="pg_ctl stop -m immediate, then start")
def test_a_database_that_crashes_costs_nothing(scene, postgres, user, page):
    """Pages, API and sockets say 503 and when to come again, or wait; the trainer goes on; every event arrives once."""
    job = scene.submit(steps=10_000, step_s=0.03)
    scene.turn()
    with served(user) as web:
        follower = Follower(web, job.pk)
        follower.open()
        follower.hear_up_to(10)
        pid = scene.pid(job)
        postgres.crash()
        told = web.get(f"/api/v1/jobs/{job.pk}")
        assert told.is_patient
        assert told.json["error"]["code"] == "database.unavailable"
        answer = page("/")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert "does not answer" in answer.content.decode()
        assert web.get("/healthz").status == 200
        latecomer = Follower(web, job.pk)
        latecomer.open()
        latecomer.says_live(ok=False)
        assert psutil.pid_exists(pid)

        postgres.start()
        latecomer.says_live(ok=True)
        assert web.get(f"/api/v1/jobs/{job.pk}").status == 200
        scene.until_step(job, 1 + Job.objects.get(pk=job.pk).done)
        stop(scene, job)
        for each in (follower, latecomer):
            each.hear_up_to(job.last_seq)
            assert each.has_all(job.last_seq)
            each.close()
        assert set(web.statuses) == {200, 503}
    assert len(scene.attempts(job)) == 1
    scene.check(job, status=Status.CANCELLED)


@fault("17", how="real", inject="every connection that the server has is taken")
def test_a_crowded_database_is_said_and_running_jobs_are_recorded(scene, postgres, user, page):
    """The web says 503; the supervisor keeps its connection, so its job is recorded and its lease is renewed."""
    job = scene.submit(steps=10_000, step_s=0.03)
    scene.turn()
    with served(user) as web, ExitStack() as hogs:
        looking = psycopg.connect(_address(), autocommit=True)
        hogs.enter_context(looking)
        scene.until_step(job, 5)
        connection.close()
        _take_every_connection(hogs)

        told = web.get(f"/api/v1/jobs/{job.pk}")
        assert told.is_patient
        assert "no free connection" in told.json["error"]["message"]
        assert page("/").status_code == 503
        _grows(lambda: _recorded(looking, job), scene, job)
        _grows(lambda: _beat(looking, job), scene, job)
        hogs.close()
        assert web.get(f"/api/v1/jobs/{job.pk}").status == 200
    stop(scene, job)
    scene.check(job, status=Status.CANCELLED)


def _grows(read, scene, job):
    before = read()
    try:
        until(lambda: read() > before)
    except TimeoutError:
        pytest.fail(f"still {before}; the supervisor said: {scene.supervisor_output(job)}")


def _address():
    told = connection.settings_dict
    return f"host={told['HOST']} port={told['PORT']} user={told['USER']} dbname={told['NAME']}"


def _take_every_connection(hogs):
    while True:
        try:
            hogs.enter_context(psycopg.connect(_address()))
        except psycopg.OperationalError:
            return


def _recorded(looking, job):
    return looking.execute("SELECT last_seq FROM jobs_job WHERE id = %s", [job.pk]).fetchone()[0]


def _beat(looking, job):
    return looking.execute("SELECT max(heartbeat_at) FROM jobs_attempt WHERE job_id = %s", [job.pk]).fetchone()[0]


@fault(
    "18", title="Two transactions that cannot both be", how="real", inject="both read, then both write; serialisable"
)
def test_a_serialisation_failure_is_tried_again(postgres, user, make_job):
    """Both changes are done, one of them at a second try; nobody hears of it."""
    _set_isolation(postgres, "serializable")
    job = make_job()
    meeting = threading.Barrier(2)
    tries: Counter[str] = Counter()

    @atomically
    def add(word):
        found = Job.objects.get(pk=job.pk).notes
        tries[word] += 1
        if tries[word] == 1:
            meeting.wait()
        Job.objects.filter(pk=job.pk).update(notes=f"{found}{word}")

    _at_once([(add, "a"), (add, "b")])
    job.refresh_from_db()
    assert sorted(job.notes) == ["a", "b"]
    assert sorted(tries.values()) == [1, 2]


@fault("18", title="Two transactions that wait for each other", how="real", inject="locks taken crosswise")
def test_a_deadlock_is_tried_again(postgres, user, make_job):
    """Both are done whole, the one that the server gave up at a second try."""
    jobs = make_job(), make_job()
    meeting = threading.Barrier(2)
    tries: Counter[str] = Counter()

    @atomically
    def rename(word, *order):
        tries[word] += 1
        for place, job in enumerate(order):
            Job.objects.filter(pk=job.pk).update(title=word, notes=word)
            if place == 0 and tries[word] == 1:
                meeting.wait()

    _at_once([(rename, "a", *jobs), (rename, "b", *reversed(jobs))])
    assert sorted(tries.values()) == [1, 2]
    last = max(tries, key=tries.__getitem__)
    assert {*Job.objects.values_list("title", "notes")} == {(last, last)}


@fault("18", title="A conflict that stays", how="scripted", inject="every try fails")
def test_a_conflict_that_stays_is_said_and_leaves_nothing(postgres, user, make_job, api, monkeypatch):
    """Three repeats, then 503 with words; the change is not half done."""
    job = make_job()
    tries = []

    def lose(*_):
        tries.append(1)
        job_annotate(user, job.pk, "half")
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")

    monkeypatch.setattr("dashboard.api.jobs.job_rename", atomically(lose))
    answer = api.patch(f"/api/v1/jobs/{job.pk}", {"title": "other"}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database.unavailable")
    job.refresh_from_db()
    assert job.notes == ""
    assert len(tries) == 1, "inside the request's own transaction it is that one which would be tried again"
    with pytest.raises(OperationalError):
        atomically(lose)()
    assert len(tries) == 2 + MOST_REPEATS
    job.refresh_from_db()
    assert job.notes == ""


@fault("18", title="Changes to a running job, all at once", how="real", inject="serialisable; two people at one run")
def test_people_and_recorder_in_each_others_way(scene, postgres, user):
    """Every change is done, at the latest when the person tries again, and the run is recorded whole."""
    _set_isolation(postgres, "serializable")
    job = scene.submit(steps=10_000, step_s=0.02)
    scene.turn()
    scene.until_step(job, 3)

    told = []

    def change(name):
        for n in range(10):
            while True:
                try:
                    job_rename(user, job.pk, f"{name} {n}")
                    break
                except OperationalError as error:
                    told.append(trouble_of(error))

    _at_once([(change, name) for name in "ab"])
    assert set(told) <= {Trouble.CONFLICT}
    stop(scene, job)
    assert job.title.endswith(" 9")
    scene.check(job, status=Status.CANCELLED)


def _set_isolation(postgres, level):
    postgres.execute(f"ALTER SYSTEM SET default_transaction_isolation = '{level}'")
    postgres.execute("SELECT pg_reload_conf()")
    connection.close()
    until(lambda: _isolation() == level)


def _isolation():
    with connection.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        return cursor.fetchone()[0]


def _at_once(calls):
    raised = []

    def run(function, *args):
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - told to the test's own thread
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised, raised


@contextmanager
def behind(proxy: CommitProxy) -> Iterator[None]:
    """This process speaks to its database through the proxy."""
    name = connection.settings_dict["NAME"]
    with proxy, django_on(f"postgres://fovea@127.0.0.1:{proxy.port}/{name}"):
        yield


@fault("19", how="real", inject="a proxy loses the answer to COMMIT")
def test_an_answer_to_commit_that_is_lost_is_looked_up(postgres, redis_server, imported, api):
    """The service asks again, finds what was committed, and there is one job."""
    dataset = imported()
    n_before = Job.objects.count()
    losses = iter([True])
    proxy = CommitProxy(postgres.port, lambda: next(losses, False))
    with behind(proxy):
        answer = api.post("/api/v1/trainings", wish(dataset), content_type="application/json")
    assert (answer.status_code, proxy.n_lost) == (201, 1)
    assert Job.objects.count() == n_before + 1
    assert answer.json()["id"] == Submission.objects.get(job__verb="train").job_id


@fault(
    "19", title="And then the database is away", how="real", inject="a proxy loses the answer, then lets nobody through"
)
def test_who_was_answered_503_may_ask_again(postgres, redis_server, imported, api):
    """503; the same request with the same key, once there is a database again, gives the job that had been made."""
    dataset = imported()
    n_before = Job.objects.count()

    def lose_and_cut():
        proxy.is_cut = True
        return True

    proxy = CommitProxy(postgres.port, lambda: not proxy.is_cut and lose_and_cut())

    def ask(**changes):
        told = {"headers": {"Idempotency-Key": "mine"}, "content_type": "application/json"}
        return api.post("/api/v1/trainings", wish(dataset, **changes), **told)

    with behind(proxy):
        refused = ask()
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert Job.objects.count() == n_before + 1
    again = ask()
    assert again.status_code == 201
    assert Job.objects.count() == n_before + 1
    assert ask().json()["id"] == again.json()["id"]
    assert ask(title="another").json()["id"] != again.json()["id"]


@fault("19", title="Under a supervisor", how="real", inject="a proxy loses the answer to every third COMMIT")
def test_a_supervisor_records_what_it_does_not_know_to_be_recorded(scene, postgres, monkeypatch):
    """Every event once in the rows and in the live stream, one attempt."""
    name = connection.settings_dict["NAME"]
    n_commits = iter(range(1, 10**6))
    with CommitProxy(postgres.port, lambda: next(n_commits) % 3 == 0) as proxy:
        monkeypatch.setenv("DATABASE_URL", f"postgres://fovea@127.0.0.1:{proxy.port}/{name}")
        job = scene.submit(steps=10_000, step_s=0.02)
        scene.turn()
        until(lambda: proxy.n_lost >= 5)
        stop(scene, job)
    assert len(scene.attempts(job)) == 1
    assert stream.published_seq(job.pk) == job.last_seq
    scene.check(job, status=Status.CANCELLED)


@pytest.fixture
def small_disk(postgres, _cluster):
    """The test's database on a disk of 64 MB; the server's own log of changes lies elsewhere."""
    name = connection.settings_dict["NAME"]
    connection.close()
    disk = SmallDisk(_cluster.folder / "small", 64 * MIB)
    space = disk.place / "space"
    space.mkdir()
    shutil.chown(space, "postgres")
    _cluster.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
    _cluster.execute(f"ALTER DATABASE {name} SET TABLESPACE small")
    yield disk
    connection.close()
    _cluster.execute(f"DROP DATABASE {name} WITH (FORCE)")
    _cluster.execute("DROP TABLESPACE small")
    _cluster.execute(f"CREATE DATABASE {name}")
    disk.remove()


@fault("23", how="real", inject="the tables on a tmpfs of 64 MB that is full")
def test_a_full_disk_of_the_database_is_read_only(scene, small_disk, user, page, imported, api):
    """Pages and API read; who changes something is told why not; a running job is recorded once there is room."""
    dataset = imported()
    job = scene.submit(steps=10_000, step_s=0.03, burst=40)
    scene.turn()
    scene.until_step(job, 3)
    small_disk.fill(leave_bytes=0)
    n_jobs = Job.objects.count()

    # Too long for the room that is left inside the tables.
    notes = os.urandom(200_000).hex()
    told = api.post("/api/v1/trainings", wish(dataset, notes=notes), content_type="application/json")
    assert (told.status_code, told.json()["error"]["code"]) == (503, "database.unavailable")
    assert "nothing can be changed" in told.json()["error"]["message"]
    assert (Job.objects.count(), page("/").status_code) == (n_jobs, 200)
    assert api.get(f"/api/v1/jobs/{job.pk}/curves").status_code == 200

    pid = scene.pid(job)
    until(lambda: "does not answer" in scene.supervisor_output(job))
    assert psutil.pid_exists(pid)
    small_disk.make_room()
    scene.until_step(job, 1 + Job.objects.get(pk=job.pk).done)
    stop(scene, job)
    assert len(scene.attempts(job)) == 1
    scene.check(job, status=Status.CANCELLED)
