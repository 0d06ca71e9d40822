"""The whole path with the real engine: bundled sample, import, training, curves."""

from __future__ import annotations

import json
import shutil

import pytest

from jobs import selectors, services
from jobs.dispatch import dispatch
from jobs.models import Artifact, Attempt, Job
from jobs.requests import CheckpointInit, ImportRequest, TrainingRequest
from jobs.states import Status
from jobs.storage import storage
from tests.flow import running
from tests.flow.running import PATIENCE_S, log_of
from tests.surroundings import until
from wire.specs import Choice, FromSample, TrainOptions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def until_ended(job):
    """With the evaluation that follows a training."""
    running.until_ended(job)
    running.until_quiet()
    return job


def written(job):
    return [json.loads(line) for line in storage().job(job.pk).events_path.read_text().splitlines()]


def points(job):
    """What events.jsonl says of each series, without the points that a later attempt did again."""
    curves: dict[str, dict[int, float | None]] = {}
    for envelope in written(job):
        event = envelope["event"]
        if event["kind"] == "attempt.started":
            for name, curve in curves.items():
                curves[name] = {step: value for step, value in curve.items() if step <= event["from_step"]}
        if event["kind"] == "scalars":
            for name, value in event["values"].items():
                curves.setdefault(name, {})[event["step"]] = value
    return curves


def drawn(job):
    series = selectors.curves_read(job, max_points=100_000).series
    return {name: dict(zip(one.step, one.value, strict=True)) for name, one in series.items()}


@pytest.fixture
def digits(user, redis_server):
    job = until_ended(services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits"))))
    assert job.status == Status.SUCCEEDED, log_of(job)
    return job


def train(user, digits, **options):
    request = TrainingRequest(
        dataset=digits.pk,
        model=Choice(name="lenet5"),
        options=TrainOptions(**{"epochs": 2, "image_px": 32, "colour": "grey", **options}),
        devices=["cpu"],
    )
    return services.training_submit(user, request)


def test_the_curves_are_what_the_engine_wrote(user, digits):
    (dataset,) = selectors.datasets_of(user)
    assert dataset.dataset_meta["n_images"] == 1797
    job = until_ended(train(user, digits))
    assert job.status == Status.SUCCEEDED, log_of(job)
    assert drawn(job) == points(job)
    assert {"train/loss", "train/top1", "val/loss", "val/top1", "lr"} <= drawn(job).keys()
    assert [envelope["seq"] for envelope in written(job)] == list(range(1, job.last_seq + 1))
    assert job.best_value > 0.5
    assert any(artifact.kind == "checkpoint" for artifact in selectors.artifacts_of(job))
    summary = selectors.job_summary(job, user)
    assert (summary.progress, summary.epoch, summary.epochs) == (1.0, 2, 2)


def test_a_folder_that_is_gone_fails_the_run_and_says_so(user, digits):
    run = train(user, digits)
    Job.objects.filter(pk=run.pk).update(status=Status.SUCCEEDED)
    made = Artifact.objects.create(
        made_by=run, kind="checkpoint", name="step-1", path="artifacts/checkpoints/step-1.pt", sha256="0" * 64, bytes=1
    )
    again = services.training_request_of(run).model_copy(update={"init": CheckpointInit(artifact=made.pk)})
    job = until_ended(services.training_submit(user, again))
    assert (job.status, job.error_code) == (Status.FAILED, "checkpoint.missing"), log_of(job)
    assert "step-1.pt" in job.error_message
    assert job.error_hint
    shutil.rmtree(storage().job(digits.pk).path)
    job = until_ended(train(user, digits))
    assert (job.status, job.error_code) == (Status.FAILED, "dataset.missing"), log_of(job)
    assert job.error_message
    assert job.error_hint


def test_suspended_with_a_checkpoint_and_woken(user, digits):
    job = train(user, digits, epochs=6)
    dispatch()
    # Before it trains it counts the images that it decodes.
    until(lambda: Job.objects.filter(pk=job.pk, stage="train", done__gt=5).exists(), timeout_s=PATIENCE_S)
    assert services.trainings_suspend(wait_s=60) == 0
    job.refresh_from_db()
    assert job.status == Status.PAUSED, log_of(job)
    services.trainings_wake()
    until_ended(job)
    assert job.status == Status.SUCCEEDED, log_of(job)
    assert Attempt.objects.get(job=job, n=2).from_step > 0
    assert drawn(job) == points(job)
