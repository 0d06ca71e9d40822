from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError
from django.utils import timezone

from jobs import evaluations, selectors, services
from jobs.access import visible_jobs
from jobs.models import Artifact, Attempt, Job
from jobs.states import Status
from jobs.storage import storage
from jobs.supervision.ending import close_by_exit, close_by_fault
from jobs.supervision.engine import Exit
from tests.jobs.evaluated import checkpoint, finished
from wire.errors import ActionRefused, DatasetMissing, NotFound, SpecInvalid
from wire.evaluation import EvaluationReport
from wire.layout import PredictionsDir
from wire.specs import EvaluateSpec, ExitReport

pytestmark = pytest.mark.django_db


def spec_of(job):
    return EvaluateSpec.model_validate(job.spec)


def running(run):
    Job.objects.filter(pk=run.pk).update(status=Status.RUNNING, ended_at=None)
    attempt = Attempt.objects.create(job=run, n=1, fence=1, host="here")
    folder = storage().job(run.pk).attempt(1)
    folder.path.mkdir(parents=True)
    folder.exit_path.write_text(ExitReport(outcome="succeeded").model_dump_json())
    return attempt


# After a training.


def test_a_training_that_succeeds_is_evaluated_once_however_often_it_is_closed(user, trained):
    run = trained(wants=["GPU-7"])
    attempt = running(run)
    for _ in range(3):
        close_by_exit(attempt, Exit(code=0))
    close_by_fault(attempt, "too late")
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED
    (job,) = Job.objects.filter(verb="evaluate")
    assert (job.status, job.part_of, job.owner, job.priority, job.wants) == ("queued", run, user, 10, ["GPU-7"])
    assert (job.title, job.private) == ("Evaluation of a run", False)
    spec = spec_of(job)
    assert spec.splits == ("val", "test")
    assert spec.dataset == run.spec["dataset"]
    made = spec.checkpoint
    assert made.path == f"../{run.pk}/artifacts/checkpoints/step-20.pt"
    assert (made.sha256, made.name, made.step, made.epoch) == (f"{20:064}", "step-20", 20, 2.0)
    assert made.chosen == "Best val/top1, 91.20 %"
    used = {used.role: used.artifact.name for used in job.inputs.select_related("artifact")}
    assert used == {"checkpoint": "step-20", "dataset": "dataset"}


@pytest.mark.parametrize(
    ("columns", "name", "why"),
    [
        ({"best_series": "val/loss", "best_value": 0.31274}, "step-20", "Best val/loss, 0.3127"),
        ({"best_series": "train/loss"}, "step-30", "The last one: there were no validation images to choose by"),
        ({"best_step": 25}, "step-30", "The last one: the best one is not there any more"),
        (
            {"best_series": "", "best_step": None, "best_value": None},
            "step-30",
            "The last one: none was measured on validation images",
        ),
    ],
)
def test_the_checkpoint_says_why_it_was_chosen(trained, columns, name, why):
    job = services.evaluation_submit_after(trained(**columns))
    assert (spec_of(job).checkpoint.name, spec_of(job).checkpoint.chosen) == (name, why)


def test_a_checkpoint_that_was_dropped_is_not_chosen(trained):
    run = trained(steps=(10, 20), best=20)
    Artifact.objects.filter(made_by=run, name="step-20").update(trashed_at=timezone.now())
    assert spec_of(services.evaluation_submit_after(run)).checkpoint.name == "step-10"


def test_of_two_checkpoints_of_a_step_the_later_one_is_the_last(trained):
    run = trained(steps=(10,), best=None)
    late = checkpoint(run, 20)
    early = checkpoint(run, 20.0)
    Artifact.objects.filter(pk=early.pk).update(name="step-20-unvalidated", meta=late.meta | {"epochs_done": 1})
    assert spec_of(services.evaluation_submit_after(run)).checkpoint.name == "step-20"


@pytest.mark.parametrize(
    ("counts", "splits"),
    [
        ({"train": 9, "val": 3}, ("val",)),
        ({"train": 9, "test": 3}, ("test",)),
        ({"val": 3, "test": 2}, ("val", "test")),
    ],
)
def test_the_splits_are_those_that_are_there(imported, trained, counts, splits):
    assert spec_of(services.evaluation_submit_after(trained(imported(counts=counts)))).splits == splits


def test_without_validation_and_test_images_nothing_is_submitted_and_the_page_can_say_why(user, imported, trained):
    run = trained(imported(counts={"train": 9, "val": 0}), best_series="train/loss")
    close_by_exit(running(run), Exit(code=0))
    assert not Job.objects.filter(verb="evaluate").exists()
    run.refresh_from_db()
    assert "neither validation nor test images" in evaluations.why_not_evaluated(run)
    with pytest.raises(SpecInvalid, match="digits has no images of the split val or test") as refused:
        services.evaluation_submit(user, run.pk)
    assert refused.value.hint == "Choose of: train."


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_what_did_not_succeed_is_not_evaluated_by_itself(user, trained, outcome):
    run = trained()
    attempt = running(run)
    report = ExitReport(outcome=outcome, code="x", message="m")
    storage().job(run.pk).attempt(1).exit_path.write_text(report.model_dump_json())
    Job.objects.filter(pk=run.pk).update(status=Status.CANCELLING)
    close_by_exit(attempt, Exit(code=64))
    run.refresh_from_db()
    assert run.status == outcome
    assert not Job.objects.filter(verb="evaluate").exists()
    assert evaluations.why_not_evaluated(run) == (
        f"Only a training that succeeded is evaluated by itself; this one is {outcome}."
    )
    assert services.evaluation_submit(user, run.pk).priority == 0


def test_why_there_is_no_evaluation(trained):
    assert "begins by itself" in evaluations.why_not_evaluated(trained(status=Status.RUNNING))
    assert "kept no checkpoint" in evaluations.why_not_evaluated(trained(steps=()))
    run = trained()
    assert evaluations.why_not_evaluated(run) == ""
    run.inputs.all().delete()
    assert "its dataset is not there" in evaluations.why_not_evaluated(run)


def test_an_evaluation_that_cannot_be_submitted_leaves_the_success(trained):
    run = trained(wants=["any"])
    Job.objects.filter(pk=run.pk).update(spec=run.spec | {"device": "abacus"})
    close_by_exit(running(run), Exit(code=0))
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED
    assert not Job.objects.filter(verb="evaluate").exists()


@pytest.mark.parametrize("fault", [KeyError("counts"), IntegrityError("twice"), OSError(5, "disk"), TypeError("None")])
def test_no_fault_of_its_evaluation_takes_the_success_away(trained, monkeypatch, fault):
    def fail(_run):
        Job.objects.update(notes="half of it")
        raise fault

    run = trained()
    monkeypatch.setattr("jobs.services.evaluations.evaluation_submit_after", fail)
    attempt = running(run)
    close_by_exit(attempt, Exit(code=0))
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.notes) == (Status.SUCCEEDED, "")
    assert attempt.ended_at is not None


def test_an_import_or_an_evaluation_that_succeeds_is_not_evaluated(imported, trained):
    assert services.evaluation_submit_after(imported()) is None
    evaluation = services.evaluation_submit_after(trained())
    close_by_exit(running(evaluation), Exit(code=0))
    assert Job.objects.filter(verb="evaluate").count() == 1


# When asked.


def test_another_checkpoint_another_dataset_and_chosen_splits(user, other_user, imported, trained):
    run = trained()
    other = imported(title="more digits")
    wanted = run.artifacts.get(name="step-10")
    job = services.evaluation_submit(other_user, run.pk, wanted.pk, other.pk, ("train", "val", "train"))
    spec = spec_of(job)
    assert (spec.checkpoint.name, spec.checkpoint.chosen) == ("step-10", "Chosen by hand")
    assert (spec.splits, spec.dataset) == (("train", "val"), f"../{other.pk}/artifacts/dataset")
    assert (job.owner, job.part_of, job.private) == (other_user, run, False)
    assert [step.reason for step in selectors.timeline_of(job)] == ["submitted by grace"]


def test_what_cannot_be_evaluated_is_refused_with_the_reason(user, imported, trained):
    run, other = trained(), trained()
    submit = lambda **more: services.evaluation_submit(user, run.pk, **more)  # noqa: E731
    with pytest.raises(NotFound, match="has no checkpoint #"):
        submit(checkpoint=other.artifacts.first().pk)
    with pytest.raises(NotFound, match="is not a dataset"):
        submit(dataset=other.pk)
    with pytest.raises(SpecInvalid, match="no images of the split test"):
        submit(dataset=imported(counts={"train": 9, "val": 3}).pk, splits=("val", "test"))
    with pytest.raises(SpecInvalid, match="shares no class with the run: it has cat, dog"):
        submit(dataset=imported(classes=("dog", "cat")).pk)
    with pytest.raises(DatasetMissing, match="its import is failed"):
        submit(dataset=imported(status=Status.FAILED).pk)
    with pytest.raises(NotFound, match="is not a run"):
        services.evaluation_submit(user, imported().pk)
    with pytest.raises(ActionRefused, match="may still replace its checkpoints"):
        services.evaluation_submit(user, trained(status=Status.RUNNING).pk)
    with pytest.raises(ActionRefused, match="kept no checkpoint"):
        services.evaluation_submit(user, trained(steps=()).pk)
    assert not Job.objects.filter(verb="evaluate").exists()


def test_private_is_what_run_or_dataset_are(user, other_user, admin_user, imported, trained):
    secret = trained(private=True)
    with pytest.raises(NotFound):
        services.evaluation_submit(other_user, secret.pk)
    job = services.evaluation_submit(admin_user, secret.pk)
    assert (job.private, job.owner) == (True, user)
    assert job in visible_jobs(user)
    assert job not in visible_jobs(other_user)
    hidden = imported(private=True)
    with pytest.raises(NotFound):
        services.evaluation_submit(other_user, trained().pk, dataset=hidden.pk)
    assert services.evaluation_submit(user, trained().pk, dataset=hidden.pk).private is True


# Reading.


def test_parts_are_listed_with_their_run_and_not_among_runs(user, other_user, trained, django_assert_num_queries):
    run = trained()
    first, second = (services.evaluation_submit(user, run.pk) for _ in range(2))
    Artifact.objects.create(
        made_by=first, kind="report", name="evaluation", path="artifacts/evaluation", sha256="e" * 64, bytes=1,
        meta={"top1": {"val": 0.9}},
    )  # fmt: skip
    assert {job.id for job in selectors.jobs_of(user)} == {run.pk, selectors.datasets_of(user)[0].id}
    listed = evaluations.evaluations_of(other_user, run.pk)
    assert [job.id for job in listed] == [second.pk, first.pk]
    assert (listed[1].report_meta, listed[0].report_meta) == ({"top1": {"val": 0.9}}, None)
    assert listed[0].part_of == selectors.JobRef(id=run.pk, title="a run")
    assert listed[0].dataset.title == "digits"
    assert [job.id for job in selectors.jobs_of(user, verb="evaluate")] == [second.pk, first.pk]
    assert {job.id for job in selectors.jobs_of(user, part_of=run.pk)} == {first.pk, second.pk}
    with django_assert_num_queries(4):
        selectors.jobs_of(user, verb="evaluate")
    assert selectors.job_summary(run, user).part_of is None


def test_the_title_of_a_private_run_is_not_told(user, other_user, trained):
    run = trained()
    job = services.evaluation_submit(user, run.pk)
    Job.objects.filter(pk=run.pk).update(private=True)
    assert selectors.job_summary(job, other_user).part_of.title == "a private run"
    assert selectors.job_summary(job, user).part_of.title == "a run"


def test_the_evaluation_of_a_run_is_the_newest_that_succeeded(user, other_user, trained):
    run = trained()
    assert evaluations.evaluation_of(user, run.pk) is None
    first, second, third = (services.evaluation_submit(user, run.pk) for _ in range(3))
    assert evaluations.evaluation_of(user, run.pk) == third
    for job in (first, second):
        finished(job)
    assert evaluations.evaluation_of(user, run.pk) == second
    assert evaluations.evaluation_of(user, run.pk, first.pk) == first
    with pytest.raises(NotFound, match="is not one of"):
        evaluations.evaluation_of(user, trained().pk, first.pk)
    with pytest.raises(NotFound, match="is no evaluation"):
        evaluations.evaluation_of(user, run.pk, run.pk)
    Job.objects.filter(pk=first.pk).update(private=True)
    with pytest.raises(NotFound):
        evaluations.evaluation_of(other_user, run.pk, first.pk)


def report(job):
    return EvaluationReport(
        checkpoint=spec_of(job).checkpoint, run=job.part_of_id, dataset=1, dataset_name="digits", samples_sha256="s",
        classes=("0", "1"), splits=(), device="cpu", created_at=datetime(2026, 1, 2, tzinfo=UTC),
    )  # fmt: skip


def test_a_report_is_read_or_its_absence_is_explained(user, trained):
    job = services.evaluation_submit(user, trained().pk)
    with pytest.raises(ActionRefused, match="is queued; there is no result yet"):
        evaluations.report_of(job)
    finished(job, status=Status.FAILED, error_hint="Mend it.")
    with pytest.raises(ActionRefused, match="it is failed") as refused:
        evaluations.report_of(job)
    assert refused.value.hint == "Mend it."
    Artifact.objects.create(
        made_by=job, kind="report", name="evaluation", path="artifacts/evaluation", sha256="e" * 64, bytes=1
    )
    with pytest.raises(NotFound, match="is gone"):
        evaluations.report_of(job)
    with pytest.raises(NotFound, match="is gone"):
        evaluations.predictions_reader(job)
    folder = PredictionsDir(storage().job(job.pk).evaluation_dir)
    folder.path.mkdir(parents=True)
    folder.report_path.write_text("{")
    with pytest.raises(NotFound, match="cannot be read"):
        evaluations.report_of(job)
    folder.report_path.write_text(report(job).model_dump_json())
    assert evaluations.report_of(job) == report(job)
