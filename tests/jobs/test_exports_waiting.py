"""Exports of a run that goes on."""

from __future__ import annotations

import pytest

from jobs import lineage, reconcile, services
from jobs.models import Artifact, Job
from jobs.states import Status
from tests.jobs.evaluated import checkpoint, finished
from tests.jobs.exporting import close, inputs_of, spec_of, submit, submit_one, target
from wire.errors import ActionRefused

pytestmark = pytest.mark.django_db


def test_an_export_waits_for_its_training_and_takes_the_checkpoint_that_it_chose(user, training):
    run = training(steps=(10,))
    first = submit_one(user, run, target("onnx", "int8")).job
    assert (first.status, first.wait_reason) == ("waiting", "Waiting for the training a run to end")
    assert spec_of(first).checkpoint is None
    assert submit_one(user, run, target("onnx", "int8")).job == first
    checkpoint(run, 20)
    close(run)
    spec = spec_of(first)
    assert (first.status, first.wait_reason) == ("queued", "")
    assert (spec.checkpoint.name, spec.checkpoint.chosen) == ("step-20", "Best val/top1, 91.20 %")
    assert inputs_of(first) == {"checkpoint": "step-20", "dataset": "dataset"}
    assert submit_one(user, run, target("onnx", "int8")).job == first
    evaluation = Job.objects.get(verb="evaluate")
    assert evaluation.priority > first.priority


@pytest.mark.parametrize(
    ("outcome", "steps", "message", "hint"),
    [
        ("failed", (10,), "The training a run is failed", "Export its last checkpoint by hand."),
        ("errored", (), "The training a run is errored", "Train again, then export that run."),
        ("succeeded", (), "The training a run kept no checkpoint", "Train again, then export that run."),
    ],
)
def test_an_export_fails_with_its_training(user, training, outcome, steps, message, hint):
    run = training(steps=steps)
    job = submit_one(user, run).job
    close(run, outcome)
    job.refresh_from_db()
    assert (job.status, job.error_code, job.error_hint) == ("failed", "checkpoint.missing", hint)
    assert job.error_message.startswith(message)
    assert job.ended_at is not None
    assert job.wait_reason == ""


def test_cancelling_a_training_that_has_no_process_ends_what_waits_for_it(user, training):
    run = training(status=Status.QUEUED)
    job = submit_one(user, run).job
    services.job_cancel(user, run.pk)
    job.refresh_from_db()
    assert (job.status, job.error_hint) == ("failed", "Export its last checkpoint by hand.")
    assert submit_one(user, run).job.status == Status.QUEUED


def test_an_export_that_was_cancelled_while_it_waited_stays_so(user, training):
    run = training()
    job = submit_one(user, run).job
    services.job_cancel(user, job.pk)
    close(run)
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_an_export_of_a_training_whose_dataset_is_still_imported(user, imported, training):
    dataset = imported(status=Status.RUNNING)
    made = Artifact.objects.filter(made_by=dataset)
    path, meta = made.get().path, made.get().meta
    made.delete()
    run = training(dataset, status=Status.WAITING, steps=())
    job = submit_one(user, run).job
    assert (job.status, inputs_of(job)) == ("waiting", {})
    Artifact.objects.create(
        made_by=dataset, kind="dataset", name="dataset", path=path, sha256="a" * 64, bytes=9, meta=meta
    )
    finished(dataset)
    assert lineage.wake_dependents(dataset.pk) == [run.pk]
    job.refresh_from_db()
    assert job.status == Status.WAITING
    checkpoint(run, 20)
    Job.objects.filter(pk=run.pk).update(status=Status.RUNNING)
    close(run)
    assert spec_of(job).checkpoint.name == "step-20"
    assert inputs_of(job) == {"checkpoint": "step-20", "dataset": "dataset"}


def test_an_export_fails_with_the_import_of_its_training(user, imported, training):
    dataset = imported(status=Status.RUNNING)
    Artifact.objects.filter(made_by=dataset).delete()
    run = training(dataset, status=Status.WAITING, steps=())
    job = submit_one(user, run).job
    finished(dataset, status=Status.FAILED)
    lineage.wake_dependents(dataset.pk)
    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "checkpoint.missing")


def test_a_checkpoint_of_a_run_that_goes_on_is_not_chosen_by_hand(user, training):
    run = training()
    with pytest.raises(ActionRefused, match="may still replace its checkpoints"):
        submit(user, run, checkpoint=Artifact.objects.get(made_by=run, name="step-10").pk)


def test_who_was_not_woken_is_woken_later(user, training, monkeypatch):
    run = training()
    job = submit_one(user, run).job

    def fail(_run):
        raise KeyError("step")

    with monkeypatch.context() as broken:
        broken.setattr("jobs.lineage.checkpoint_chosen", fail)
        close(run)
    run.refresh_from_db()
    job.refresh_from_db()
    assert (run.status, job.status) == ("succeeded", "waiting")
    reconcile.reconcile()
    job.refresh_from_db()
    assert job.status == Status.QUEUED
