"""What becomes of jobs when the services around them fail or are exchanged."""

from __future__ import annotations

import http.client
import itertools
import os
import shelve
import ssl
import sys
import threading
from collections import Counter
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from config.start.places import Places
from config.start.programs import Program, supervisor_conf
from config.start.supervisor import Supervisor
from jobs.models import Job
from jobs.services import job_cancel
from jobs.states import Status
from jobs.storage import storage
from tests.faults.half_open import HalfOpen
from tests.faults.ledger import fault
from tests.faults.web import served
from tests.kits.nginx import nginx_path, running_nginx
from tests.surroundings import until

CELERY = (sys.executable, "-m", "celery", "-A", "config")


@pytest.fixture
def cared_for(scene, tmp_path):
    """A worker that supervisord looks after, as in an installation; it hears itself at least every 3 s."""
    places = Places(tmp_path)
    for folder in (places.run_dir, places.logs_dir, places.sockets_dir):
        folder.mkdir(parents=True, exist_ok=True)
    command = (*CELERY, "worker", "-c", "1", "--without-gossip", "--without-mingle", "-l", "INFO")
    conf = supervisor_conf([Program("worker", command, stop_s=5)], places=places, project_dir=settings.BASE_DIR)
    places.supervisor_conf_path.write_text(conf)
    started = []

    def start(redis_url: str) -> Supervisor:
        supervisor = Supervisor(
            places, {"FOVEA_TEST_REDIS_URL": redis_url, "FOVEA_TEST_CANARY_S": "0.5,3"}, Path(settings.BASE_DIR)
        )
        started.append(supervisor)
        return supervisor

    yield start
    sys.stdout.write((places.logs_dir / "worker.log").read_text())
    for supervisor in started:
        supervisor.stop(patience_s=20)


@fault("9", how="real", inject="a proxy before Redis that drops what comes on its open connections")
def test_a_worker_that_takes_no_messages_is_started_anew(scene, cared_for, redis_server, tmp_path):
    """The worker notices that it no longer hears itself, ends, and is started again by what looks after it; the new
    one hears. A job submitted meanwhile starts by the agent."""
    with HalfOpen(tmp_path / "redis.sock", redis_server.socket_path) as network:
        supervisor = cared_for(f"unix://{network.path}?db=0")
        sign = storage().sign_path(os.uname().nodename, "worker")
        sign.unlink(missing_ok=True)
        until(sign.exists)
        (before,) = supervisor.statuses()
        children = psutil.Process(before.pid).children(recursive=True)

        assert network.freeze() > 0
        job = scene.submit(steps=10)
        scene.finish(job)
        after = until(lambda: [each for each in supervisor.statuses() if each.pid not in {0, before.pid}])

        assert "takes no messages although Redis answers" in (tmp_path / "logs" / "worker.log").read_text()
        sign.unlink()
        until(sign.exists)
        assert psutil.pid_exists(after[0].pid)
        until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    scene.check(job)


@fault("10", how="real", inject="no process of Celery beat, then two that send everything twice a second")
def test_no_beat_and_two_of_them(scene, redis_server, tmp_path):
    """Each job starts once, each attempt has one trainer, and a lost one is taken up again."""
    unrung = scene.submit(verb="import", steps=10)
    scene.finish(unrung)

    scene.start_worker()
    kept = [tmp_path / "one", tmp_path / "other"]
    beats = [scene.run([*CELERY, "beat", "-s", str(path), "--pidfile="], FOVEA_TEST_BEAT_S="0.5") for path in kept]
    until(lambda: all(list(tmp_path.glob(f"{path.name}*")) for path in kept))
    slow = {"steps": 40, "step_s": 0.05}
    jobs = [scene.submit(**slow), scene.submit(**slow, crash_at={"1": 8}), scene.submit(verb="import", **slow)]
    scene.finish(*jobs)
    for beat, path in zip(beats, kept, strict=True):
        beat.terminate()
        beat.wait()
        with shelve.open(str(path)) as notes:  # noqa: S301 - our own
            assert notes["entries"]["dispatch"].total_run_count > 0

    scene.check(unrung, *jobs)
    assert [len(scene.attempts(job)) for job in jobs] == [1, 2, 1]
    for job in jobs:
        for attempt in scene.attempts(job):
            said = scene.folder(job).attempt(attempt.n).log_path.read_text()
            assert said.count(f"attempt {attempt.n} begins") == 1


class Visitor(threading.Thread):
    """Asks for pages and for the API, by the proxy, all the time; keeps what was answered."""

    def __init__(self, nginx, token, paths):
        super().__init__(name="visitor")
        self._nginx, self._token, self._paths = nginx, token, paths
        self._ended = threading.Event()
        self.answers = Counter()

    def run(self):
        trusted = ssl.create_default_context(cafile=str(self._nginx.certificate))
        for path in itertools.cycle(self._paths):
            if self._ended.wait(0.02):
                return
            connection = http.client.HTTPSConnection("localhost", self._nginx.https_port, context=trusted, timeout=30)
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            self.answers[answer.status, "Retry-After" in answer.headers] += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self._ended.set()
        self.join()


@pytest.mark.skipif(not nginx_path(), reason="there is no nginx")
@fault("44", how="scripted", inject="a migration, then every service ended in order and started again")
def test_an_upgrade_while_two_jobs_run(scene, postgres, redis_server, user, tmp_path, monkeypatch):
    """Both jobs go on in the processes that they had, without a gap, while the tables that they write to are changed
    and every service is exchanged. Visitors are answered 200, or 503 and to come again, and nothing else."""
    beat = (*CELERY, "beat", "-s", str(tmp_path / "beat"), "--pidfile=")

    def services():
        return [scene.start_worker(), scene.run([*beat]), scene.start_agent()]

    old = services()
    jobs = [scene.submit(steps=50_000, step_s=0.03), scene.submit(verb="import", steps=50_000, step_s=0.03)]
    paths = ["/healthz", "/readyz", *(f"/api/v1/jobs/{job.pk}" for job in jobs)]
    with (
        served(user) as web,
        running_nginx(tmp_path, upstream_port=web.port, prefix="") as nginx,
        Visitor(nginx, web.token, paths) as visitor,
    ):
        for job in jobs:
            scene.until_step(job, 10)
        pids = [scene.pid(job) for job in jobs]

        monkeypatch.setenv("FOVEA_TEST_NEXT_RELEASE", "1")
        assert scene.manage("migrate", "--no-input").wait() == 0
        for service in (*old, web.process):
            service.terminate()
        for service in (*old, web.process):
            service.wait()
        web.start()
        services()

        for job in jobs:
            scene.until_step(job, Job.objects.get(pk=job.pk).done + 20)
        assert [scene.pid(job) for job in jobs] == pids
        for job in jobs:
            job_cancel(user, job.pk)
        scene.finish(*jobs)
    scene.check(*jobs, status=Status.CANCELLED)
    assert [len(scene.attempts(job)) for job in jobs] == [1, 1]
    assert visitor.answers[200, False] > 20
    assert visitor.answers.keys() <= {(200, False), (503, True)}, visitor.answers
