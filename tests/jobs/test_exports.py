from __future__ import annotations

import threading

import pytest
from django.db import connections

from jobs import lineage, services
from jobs.dispatch import dispatch
from jobs.models import Artifact, Attempt, Device, Job
from jobs.states import Status
from jobs.storage import storage
from tests.jobs.evaluated import finished
from tests.jobs.exporting import inputs_of, spec_of, submit, submit_one, succeeded, target
from wire.cards import BackendCard
from wire.errors import ActionRefused, DatasetMissing, NotFound, SpecInvalid
from wire.specs import CalibrationOptions, VerificationOptions

pytestmark = pytest.mark.django_db


# What is submitted.


def test_each_target_is_a_job_of_its_own_in_their_order(user, trained):
    run = trained()
    wish = (target("onnx", "int8"), target("tensorrt_rtx", "fp16", compute_capabilities=["8.9"]), target("pytorch"))
    submitted = submit(user, run, *wish, calibration=CalibrationOptions(n_images=64))
    jobs = [each.job for each in submitted]
    assert all(each.is_new for each in submitted)
    assert [job.pk for job in jobs] == sorted(job.pk for job in jobs)
    assert [job.title for job in jobs] == [
        "ONNX INT8 of a run",
        "TensorRT for RTX FP16 of a run",
        "PyTorch weights FP32 of a run",
    ]
    for job in jobs:
        assert (job.verb, job.status, job.part_of, job.owner, job.wants) == ("export", "queued", run, user, ["cpu"])
        assert (job.priority, job.private) == (0, False)
        assert inputs_of(job) == {"checkpoint": "step-20", "dataset": "dataset"}
    spec = spec_of(jobs[0])
    assert spec.checkpoint.chosen == "Best val/top1, 91.20 %"
    assert (spec.checkpoint.name, spec.dataset, spec.device) == ("step-20", run.spec["dataset"], "cpu")
    assert (spec.precision, spec.calibration.n_images) == ("int8", 64)
    options = spec_of(jobs[1]).backend.options
    assert (options["compute_capabilities"], options["typical_batch"]) == (["8.9"], 8)


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED, Status.ERRORED])
def test_a_run_that_did_not_succeed_is_exported_by_what_it_left(user, trained, status):
    assert spec_of(submit_one(user, trained(status=status, best=None)).job).checkpoint.name == "step-30"


def test_a_checkpoint_chosen_by_hand(user, trained):
    run = trained()
    mine = Artifact.objects.get(made_by=run, name="step-10")
    spec = spec_of(submit_one(user, run, checkpoint=mine.pk).job)
    assert (spec.checkpoint.name, spec.checkpoint.chosen) == ("step-10", "Chosen by hand")


@pytest.mark.parametrize(
    ("wish", "error", "says"),
    [
        ([target("abacus")], SpecInvalid, "no backend called 'abacus'"),
        ([target("pytorch", "int8")], SpecInvalid, "PyTorch weights is not exported in int8"),
        ([target("onnx", speed=9)], SpecInvalid, "ONNX: option speed"),
        ([target("tensorrt_rtx", least_batch=9)], SpecInvalid, "TensorRT for RTX: the batch must not fall"),
    ],
)
def test_a_target_that_cannot_be_is_named_and_none_is_begun(user, trained, wish, error, says):
    with pytest.raises(error, match=says):
        submit(user, trained(), target(), *wish)
    assert not Job.objects.filter(verb="export").exists()


def test_a_backend_that_is_not_installed_says_what_is_missing(user, trained, monkeypatch):
    card = BackendCard(
        name="onnx", label="ONNX", implementation="x:y", precisions=("fp32",), requires=("json", "no_such_module")
    )
    monkeypatch.setattr("jobs.services.exports.backend_cards", lambda: {"onnx": card})
    with pytest.raises(ActionRefused, match="ONNX is not installed here: the module no_such_module is missing") as said:
        submit(user, trained())
    assert "scripts/install" in said.value.hint


def test_devices(user, trained):
    run = trained()
    assert spec_of(submit_one(user, run, devices=("any",)).job).device == "auto"
    Device.objects.create(
        host="here", uuid="GPU-1", kind="cuda", name="RTX", seen_at=run.created_at, memory_bytes=1, utilisation_pct=0
    )
    job = submit_one(user, run, devices=("GPU-1",)).job
    assert (job.wants, spec_of(job).device) == (["GPU-1"], "cuda")
    with pytest.raises(SpecInvalid, match="There is no device 'GPU-2'"):
        submit(user, run, devices=("GPU-2",))
    with pytest.raises(ActionRefused, match="an export uses one"):
        submit(user, run, devices=("cpu", "any"))


def test_another_dataset(user, other_user, trained, imported):
    run = trained()
    other = imported(title="more")
    assert spec_of(submit_one(user, run, dataset=other.pk).job).dataset == lineage.dataset_spec_path(other.pk)
    with pytest.raises(SpecInvalid, match="shares no class with the run"):
        submit(user, run, dataset=imported(classes=("x", "y")).pk)
    with pytest.raises(NotFound, match="is not a dataset"):
        submit(user, run, dataset=run.pk)
    with pytest.raises(NotFound):
        submit(user, run, dataset=imported(other_user, private=True).pk)
    with pytest.raises(DatasetMissing, match="its import is failed"):
        submit(user, run, dataset=imported(status=Status.FAILED).pk)


def test_a_dataset_that_an_export_reads_stays(user, trained, imported):
    run, other = trained(), imported(title="more")
    finished(submit_one(user, run, dataset=other.pk).job)
    with pytest.raises(ActionRefused, match="Still used by ONNX FP32 of a run"):
        services.jobs_delete(user, [other.pk])


def test_what_is_private_stays_so(user, other_user, admin_user, trained, imported):
    open_run = trained()
    secret = imported(private=True)
    assert submit_one(user, open_run, dataset=secret.pk).job.private
    run = trained(private=True)
    job = submit_one(admin_user, run).job
    assert (job.owner, job.private) == (user, True)
    with pytest.raises(NotFound):
        submit(other_user, run)
    own = trained(imported(private=True))
    Job.objects.filter(pk=own.pk).update(private=False)
    with pytest.raises(NotFound):
        submit(other_user, own)


def test_a_run_goes_with_its_exports(user, trained):
    run = trained()
    jobs = [each.job for each in submit(user, run, target(), target("onnx", "fp16"))]
    succeeded(jobs[0])
    services.jobs_delete(user, [run.pk])
    assert list(Job.objects.filter(pk__in=[job.pk for job in jobs], trashed_at=None)) == []
    assert list(Job.objects.filter(pk=jobs[1].pk).values_list("status", flat=True)) == ["cancelled"]


def test_an_export_waits_for_the_device_and_for_the_evaluation_of_its_run(user, trained, monkeypatch):
    monkeypatch.setattr("jobs.launch.start_supervisor", lambda attempt: None)
    run = trained(wants=["cpu"])
    first, second = (each.job for each in submit(user, run, target(), target("onnx", "fp16")))
    evaluation = services.evaluation_submit_after(run)
    dispatch()
    evaluation.refresh_from_db()
    assert evaluation.status == Status.STARTING
    finished(evaluation)
    Attempt.objects.update(ended_at=evaluation.ended_at)
    dispatch()
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.status == Status.STARTING
    assert f"export {first.pk} “ONNX FP32 of a run” is using it" in second.wait_reason


# Equal ones.


def test_an_equal_export_is_given_back_for_as_long_as_it_is_of_use(user, other_user, trained):
    run = trained()
    first = submit_one(user, run)
    for status in (Status.QUEUED, Status.STARTING, Status.RUNNING, Status.PAUSED, Status.LOST):
        Job.objects.filter(pk=first.job.pk).update(status=status)
        again = submit_one(other_user, run)
        assert (again.job, again.is_new) == (first.job, False), status
    succeeded(first.job, outcome="failed")
    assert submit_one(user, run).job == first.job
    storage().job(first.job.pk).export_dir.joinpath("report.json").unlink()
    assert submit_one(user, run).is_new


@pytest.mark.parametrize("status", [Status.FAILED, Status.ERRORED, Status.CANCELLED, Status.CANCELLING])
def test_one_that_came_to_nothing_is_made_again(user, trained, status):
    run = trained()
    first = submit_one(user, run)
    Job.objects.filter(pk=first.job.pk).update(status=status)
    assert submit_one(user, run).is_new


def test_one_that_was_deleted_is_made_again(user, trained):
    run = trained()
    services.jobs_delete(user, [succeeded(submit_one(user, run).job).pk])
    assert submit_one(user, run).is_new


def test_the_same_target_twice_in_a_request_is_one_job(user, trained):
    first, second = submit(user, trained(), target("tensorrt_rtx"), target("tensorrt_rtx", typical_batch=8))
    assert (first.job, first.is_new, second.is_new) == (second.job, True, False)


@pytest.mark.parametrize(
    "other",
    [
        {"wish": [target("onnx", "fp16")]},
        {"wish": [target("tensorrt_rtx")]},
        {"verification": VerificationOptions(n_images=0)},
        {"devices": ("any",)},
    ],
)
def test_what_differs_is_another_export(user, trained, other):
    run = trained()
    submit(user, run)
    assert submit_one(user, run, *other.pop("wish", ()), **other).is_new


def test_another_checkpoint_or_dataset_is_another_export(user, trained, imported):
    run = trained()
    submit(user, run)
    assert submit_one(user, run, dataset=imported(title="more").pk).is_new
    assert submit_one(user, run, checkpoint=Artifact.objects.get(made_by=run, name="step-10").pk).is_new
    assert not submit_one(user, run, checkpoint=Artifact.objects.get(made_by=run, name="step-20").pk).is_new


def test_calibration_matters_to_int8_alone(user, trained):
    run, other = trained(), CalibrationOptions(n_images=9)
    submit(user, run, target(), target("onnx", "int8"))
    fp32, int8 = submit(user, run, target(), target("onnx", "int8"), calibration=other)
    assert (fp32.is_new, int8.is_new) == (False, True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("goes_on", [True, False])
def test_two_that_ask_at_once_get_one_job(user, trained, training, goes_on):
    run = training() if goes_on else trained()
    start = threading.Barrier(4)
    found, faults = [], []

    def ask():
        try:
            start.wait()
            found.append(submit_one(user, run, target("onnx", "int8")))
        except Exception as fault:  # noqa: BLE001 - whatever it is, the test shows it
            faults.append(fault)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len({each.job.pk for each in found}) == 1 == Job.objects.filter(verb="export").count()
    assert sorted(each.is_new for each in found) == [False, False, False, True]
