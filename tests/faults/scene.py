"""A small installation that things are done to: real supervisors, agents and workers over the scripted engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import psutil
from django.conf import settings

from jobs import launch, tasks
from jobs.agent import Agent
from jobs.models import Attempt, Job
from jobs.states import ENDED, Status
from jobs.storage import storage
from tests.faults.history import check_history
from tests.jobs.conftest import Bench
from tests.surroundings import until
from wire.layout import JobDir

MARKER = "FOVEA_TEST_SCENE"
"""In the environment of every process of a scene, and of what those start."""
MOST_TOLD = 10_000
"""Characters of each file."""
RING_EVERY_S = 0.3
NOT_OURS = {"redis-server", "postgres"}

Found = TypeVar("Found")


class Scene(Bench):
    """``submit`` makes a job of the scripted engine, ``until`` lets the installation work while it waits."""

    def __init__(self, make_job: Callable[..., Job]) -> None:
        self.submit = make_job
        self.agent = Agent()
        self.started: list[subprocess.Popen[bytes]] = []

    # The installation at work.

    def turn(self) -> None:
        """What an agent does every two seconds, once, in this process."""
        self.agent.turn()

    def until(self, condition: Callable[[], Found | None], *, timeout_s: float = 120.0) -> Found:
        """Wait, with an agent at work."""

        def look() -> Found | None:
            self.turn()
            return condition()

        return until(look, timeout_s=timeout_s)

    def ring_until(self, condition: Callable[[], Found | None]) -> Found:
        """Wait, and ask Celery for a dispatch now and then, as beat does."""

        def look() -> Found | None:
            tasks.ring()
            time.sleep(RING_EVERY_S)
            return condition()

        return until(look)

    def finish(self, *jobs: Job) -> None:
        """Until they have ended, with an agent at work, and until their supervisors are gone."""
        for job in jobs:
            self.until(lambda job=job: self.status(job) in ENDED)  # type: ignore[misc]
            job.refresh_from_db()
        self.rest()

    def rest(self) -> None:
        """Until no supervisor is left: they tidy up after the end of their job."""
        until(lambda: not self.supervisors())

    def supervisors(self) -> list[psutil.Process]:
        return [process for process in self.processes() if "supervise" in process.info["cmdline"]]

    # Services as processes.

    def manage(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """``manage.py`` with these arguments, in a session of its own; it ends with the test."""
        return self.run([sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments], **environment)

    def run(self, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        with (Path(settings.DATA_DIR) / "services.txt").open("ab") as output:
            process = subprocess.Popen(
                command, env=os.environ | environment, stdout=output, stderr=output, start_new_session=True
            )
        self.started.append(process)
        return process

    def start_agent(self) -> subprocess.Popen[bytes]:
        """``manage.py agent``, a process as in an installation."""
        return self.manage("agent")

    def start_worker(self, *arguments: str, app: str = "config", **environment: str) -> subprocess.Popen[bytes]:
        """A Celery worker, a process as in an installation."""
        options = ("--loglevel", "INFO", "--concurrency", "1", "--without-gossip", "--without-mingle", *arguments)
        return self.run([sys.executable, "-m", "celery", "-A", app, "worker", *options], **environment)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """It, and not what it started: a killed service leaves its children."""
        process.kill()
        process.wait()

    def kill_group(self, process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    # Looking, and making it worse.

    def folder(self, job: Job) -> JobDir:
        return storage().job(job.pk)

    def attempts(self, job: Job) -> list[Attempt]:
        return list(Attempt.objects.filter(job=job).order_by("n"))

    def pid(self, job: Job) -> int:
        """Of the engine, as soon as it is known."""
        return until(lambda: self.attempt(job).pid)

    def supervisor_pid(self, job: Job) -> int:
        return until(lambda: self.attempt(job).supervisor_pid)

    def is_supervised(self, job: Job) -> bool:
        return launch.is_supervised(self.attempt(job))

    def after(self, job: Job) -> list[str]:
        """The states that the job went through."""
        return list(job.transitions.order_by("pk").values_list("after", flat=True))

    def processes(self) -> Iterable[psutil.Process]:
        """Of this scene, and alive; also those whose parents are gone."""
        wanted = os.environ[MARKER]
        for process in psutil.process_iter(["cmdline", "environ", "status", "name"]):
            info = process.info
            if info["status"] == psutil.STATUS_ZOMBIE or info["name"] in NOT_OURS or process.pid == os.getpid():
                continue
            if (info["environ"] or {}).get(MARKER) == wanted:
                yield process

    def check(self, *jobs: Job, status: Status | None = Status.SUCCEEDED) -> None:
        """That the jobs ended so, and that their history is whole."""
        self.rest()
        for job in jobs:
            job.refresh_from_db()
            assert status is None or job.status == status, f"{job}\n{self.supervisor_output(job)}"
        check_history(*jobs)

    def services_output(self) -> str:
        path = Path(settings.DATA_DIR) / "services.txt"
        return path.read_text() if path.exists() else ""

    def told(self) -> str:
        """What services and supervisors said, for whoever has to find out why a test failed."""
        said = [Path(settings.DATA_DIR) / "services.txt", *Path(settings.DATA_DIR).glob("jobs/*/attempts/*/*.txt")]
        return "\n".join(f"--- {path}\n{path.read_text()[-MOST_TOLD:]}" for path in said if path.exists())

    def end(self) -> None:
        for process in self.processes():
            process.kill()
        for service in self.started:
            service.wait()
