"""A host that stops lets its trainings save first, and takes them up again when it is back."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from jobs import suspension
from jobs.models import Job
from jobs.services import job_cancel, trainings_wake
from jobs.states import ResumesWhen, Status


@pytest.fixture
def _lifted():
    yield
    suspension.lift(only_here=True)


@pytest.mark.usefixtures("_lifted")
def test_what_runs_is_saved_nothing_starts_and_all_of_it_goes_on_afterwards(bench, make_job, user, capsys):
    running, waiting = make_job(steps=100_000, step_s=0.01), make_job(steps=5)
    bench.start(running)
    bench.until_step(running, 5)

    call_command("save")

    assert capsys.readouterr().out == "Nothing runs here any more.\n"
    saved = Job.objects.get(pk=running.pk)
    assert (saved.status, saved.resumes_when) == (Status.PAUSED, ResumesWhen.SERVER)
    assert saved.artifacts.filter(kind="checkpoint").exists()
    bench.until_step(running, 5)
    assert bench.status(waiting) == Status.QUEUED

    suspension.lift(only_here=True)
    Job.objects.filter(pk=waiting.pk).delete()
    trainings_wake()
    bench.start(running)
    bench.until_step(running, saved.done + 5)
    job_cancel(user, running.pk)
    bench.until_ended(running)
