from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connections

from jobs import launch, services, transitions
from jobs.dispatch import dispatch
from jobs.models import Artifact, Attempt, Job
from jobs.requests import ImportRequest, TrainingRequest
from jobs.states import ENDED, Status
from jobs.storage import storage
from tests.jobs.evaluated import COUNTS, checkpoint, finished
from tests.surroundings import until
from wire.specs import Choice, FromSample


@pytest.fixture
def make_job(user):
    """A training as the supervisor sees it; ``script`` is what the scripted engine does."""

    def make(*, status=Status.QUEUED, verb="train", **script):
        return transitions.begin(
            status=status,
            verb=verb,
            spec={"verb": verb, "model": {"name": "lenet5"}, "script": script},
            title=f"scripted {verb}",
            owner=user,
            wants=["cpu"] if verb == "train" else [],
        )

    return make


@pytest.fixture
def imported(user):
    def make(owner=user, *, counts=COUNTS, classes=("0", "1"), title="digits", **columns):
        job = services.import_submit(owner, ImportRequest(name=title, source=FromSample(name="digits")))
        Artifact.objects.create(
            made_by=job, kind="dataset", name="dataset", path="artifacts/dataset", sha256="a" * 64, bytes=9,
            meta={"n_images": sum(counts.values()), "counts": counts, "classes": classes, "n_classes": len(classes)},
        )  # fmt: skip
        return finished(job, **columns)

    return make


@pytest.fixture
def trained(user, imported):
    """A training whose best checkpoint is its second of three, as its recorder would have left it."""

    def make(
        dataset=None, owner=user, *, status=Status.SUCCEEDED, steps=(10, 20, 30), best=20, private=False, **columns
    ):
        wish = TrainingRequest(
            dataset=(dataset or imported()).pk, model=Choice(name="lenet5"), title="a run", private=private
        )
        run = services.training_submit(owner, wish)
        for step in steps:
            checkpoint(run, step)
        if best is not None:
            columns = {"best_series": "val/top1", "best_value": 91.2, "best_step": best, **columns}
        return finished(run, status=status, **columns)

    return make


@pytest.fixture
def training(user, imported):
    """A run that goes on, with what it has saved so far."""

    def make(dataset=None, owner=user, *, status=Status.RUNNING, steps=(10, 20)):
        wish = TrainingRequest(dataset=(dataset or imported()).pk, model=Choice(name="lenet5"), title="a run")
        run = services.training_submit(owner, wish)
        for step in steps:
            checkpoint(run, step)
        Job.objects.filter(pk=run.pk).update(status=status, best_series="val/top1", best_value=91.2, best_step=20)
        run.refresh_from_db()
        return run

    return make


@pytest.fixture
def database(transactional_db):
    """The test's database may be exchanged; afterwards it is the one that it was, and empty."""
    yield
    connections.close_all()
    shutil.rmtree(storage().backups_dir, ignore_errors=True)
    for path in Path(settings.DATA_DIR).parent.rglob("*.before-restore-*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


class Bench:
    """Jobs that run in real processes, and what a test does to them."""

    def start(self, job: Job) -> Attempt:
        dispatch()
        return self.attempt(job)

    def attempt(self, job: Job) -> Attempt:
        return Attempt.objects.filter(job=job).latest("n")

    def status(self, job: Job) -> Status:
        return Status(Job.objects.values_list("status", flat=True).get(pk=job.pk))

    def until_status(self, job: Job, *wanted: Status) -> None:
        until(lambda: self.status(job) in wanted)

    def until_ended(self, job: Job) -> Job:
        until(lambda: self.status(job) in ENDED)
        job.refresh_from_db()
        return job

    def until_step(self, job: Job, step: int) -> None:
        until(lambda: Job.objects.filter(pk=job.pk, done__gte=step).exists())

    def kill_supervisor(self, job: Job) -> None:
        pid = until(lambda: self.attempt(job).supervisor_pid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not launch.is_supervised(self.attempt(job)))

    def kill_engine(self, job: Job) -> None:
        pid = until(lambda: self.attempt(job).pid)
        os.kill(pid, signal.SIGKILL)

    def events(self, job: Job) -> list[dict[str, Any]]:
        return [json.loads(line) for line in storage().job(job.pk).events_path.read_text().splitlines()]

    def supervisor_output(self, job: Job) -> str:
        return "".join(path.read_text() for path in storage().job(job.pk).path.glob("attempts/*/supervisor.txt"))


@pytest.fixture
def bench(transactional_db, redis_server, monkeypatch):
    """Real supervisors over the scripted engine; every process ends with the test."""
    engine = [sys.executable, str(Path(__file__).parent / "scripted_engine.py")]
    monkeypatch.setenv("FOVEA_TEST_ENGINE", os.pathsep.join(engine))
    monkeypatch.setenv("PYTHONPATH", str(settings.BASE_DIR))
    yield Bench()
    marker = f"{settings.DATA_DIR}/jobs/"
    mine = [
        one for one in psutil.process_iter(["cmdline"]) if any(marker in part for part in one.info["cmdline"] or ())
    ]
    for process in [*mine, *psutil.Process().children()]:
        if "redis" not in process.name():
            process.kill()
    psutil.wait_procs(mine)
    until(lambda: launch.reap() or not launch._children)
