"""From a trained run to what is downloaded: jobs, the real engine and its runtimes, the bundle.

One network is trained for all of them; each test has a run of its own that ended as that one did. Where it is no matter
of processes, the engine works inside the test.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import zipfile
import zlib
from pathlib import Path

import psutil
import pytest
import sklearn  # noqa: F401 - it and torch set variables of the environment: not inside a test
import torch._inductor.utils  # noqa: F401
from django.urls import reverse

from engine.export import latency
from engine.export.graph import whole_model
from jobs import exports, services
from jobs.bundles import bundle_of
from jobs.dispatch import dispatch
from jobs.models import Artifact, Attempt, DeviceLease, Job
from jobs.requests import ImportRequest, TrainingRequest
from jobs.states import Status
from jobs.storage import storage
from tests.flow.running import PATIENCE_S, log_of, until_ended, until_quiet
from tests.jobs.exporting import submit, submit_one, target
from tests.kits.settling import engine_here, settle, settle_as
from tests.kits.trees import class_tree
from tests.surroundings import until
from wire.layout import ExportDir, Storage
from wire.specs import Choice, FromFolder, FromSample, ImportOptions, ImportSpec, TrainOptions, TrainSpec

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

SAMPLE = FromSample(name="digits")
MODEL = Choice(name="lenet5")
OPTIONS = TrainOptions(epochs=1, image_px=32, colour="grey")


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Storage:
    """The import of the sample (job 1) and a training on it (job 2), as they ended."""
    data = Storage(tmp_path_factory.mktemp("digits"))
    importing = ImportSpec(name="digits", source=SAMPLE)
    training = TrainSpec(dataset="../1/artifacts/dataset", model=MODEL, options=OPTIONS, device="cpu")
    for job_id, spec in ((1, importing), (2, training)):
        job = data.job(job_id)
        job.path.mkdir(parents=True)
        job.spec_path.write_text(spec.model_dump_json())
        assert engine_here([spec.verb, "--dir", str(job.path)]) == 0
    return data


@pytest.fixture
def digits(user, done) -> Job:
    return settle_as(services.import_submit(user, ImportRequest(name="digits", source=SAMPLE)), done.job(1).path)


def train(user, dataset) -> Job:
    wish = TrainingRequest(dataset=dataset.pk, model=MODEL, options=OPTIONS, devices=["cpu"])
    return services.training_submit(user, wish)


@pytest.fixture
def run(user, digits, done) -> Job:
    run = settle_as(train(user, digits), done.job(2).path)
    assert run.status == Status.SUCCEEDED
    return run


@pytest.fixture
def _quick(monkeypatch):
    """Latencies are measured all the same, a few times."""
    monkeypatch.setattr(latency, "LEAST_RUNS", 2)
    monkeypatch.setattr(latency, "WARM_UP_S", 0)
    monkeypatch.setattr(latency, "BUDGET_S", 0)


def rows(user, run):
    """The newest of each target."""
    return {(row.backend, row.precision): row for row in exports.exports_of(user, run.pk) if row.is_newest}


def folder_of(job) -> ExportDir:
    return ExportDir(storage().job(job.pk).export_dir)


def assert_nothing_left(job):
    """Neither an artifact nor a file of one, nor a device that it holds."""
    place = storage().job(job.pk)
    assert not Artifact.objects.filter(made_by=job).exists()
    assert not place.scratch_dir.exists()
    assert not place.artifacts_dir.exists()
    assert {path.name for path in place.path.iterdir()} <= {
        *("spec.json", "record.json", "events.jsonl", "lock", "attempts")
    }
    assert not DeviceLease.objects.filter(attempt__job=job).exists()


def commands_of(job) -> list[list[str]]:
    """Of the processes that an attempt of this job started, wherever they hang."""
    markers = {f"{storage().root}:{attempt.pk}" for attempt in Attempt.objects.filter(job=job)}
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FOVEA_ATTEMPT") in markers:
                found.append(process.cmdline())
        except (psutil.Error, OSError):
            continue  # it has ended, or is somebody else's
    return found


def announced_by(job) -> dict[str, str]:
    """Hashes of what an export delivers; those of all its files are the announced ones."""
    report, folder = exports.export_report_of(job), folder_of(job)
    there = {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*") if path.is_file()}
    assert there - {file.path for file in report.files} <= {"report.json", "predictions.sqlite"}
    for file in report.files:
        content = (folder.path / file.path).read_bytes()
        assert (file.bytes, file.crc32, file.sha256) == (len(content), zlib.crc32(content), sha256_of(content))
    assert Artifact.objects.get(made_by=job).sha256 == sha256_of(folder.report_path.read_bytes())
    name = f"{report.backend.name}-{report.precision}"
    return {f"{name}/{Path(file.path).name}": file.sha256 for file in report.files if file.role != "golden"}


def of_bundle(contents) -> tuple[dict[str, str], dict[str, str]]:
    """Hashes of its members: as they are listed in it, and as they are."""
    data = b"".join(contents.stream())
    assert len(data) == contents.size_bytes
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    lines = members.pop("SHA256SUMS").decode().splitlines()
    return {line[66:]: line[:64] for line in lines}, {name: sha256_of(content) for name, content in members.items()}


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.usefixtures("_quick")
def test_every_file_that_is_handed_out_is_the_one_that_was_verified(user, run):
    targets = (
        *(target("onnx", "fp32"), target("onnx", "int8")),
        *(target("tensorrt_rtx", "fp32", compute_capabilities=["8.6"]), target("pytorch")),
    )
    submitted = submit(user, run, *targets)
    jobs = [each.job for each in submitted]
    assert [each.is_new for each in submitted] == [True] * 4
    assert [(each.job.pk, each.is_new) for each in submit(user, run, *targets)] == [(job.pk, False) for job in jobs]
    for job in map(settle, jobs):
        assert job.status == Status.SUCCEEDED, log_of(job)
    assert [(each.job.pk, each.is_new) for each in submit(user, run, *targets)] == [(job.pk, False) for job in jobs]

    made = rows(user, run)
    assert {name: (row.outcome, row.reasons) for name, row in made.items()} == {
        ("pytorch", "fp32"): ("passed", ()),
        ("onnx", "fp32"): ("passed", ()),
        ("onnx", "int8"): ("passed", ()),
        ("tensorrt_rtx", "fp32"): ("not_run", ("no CUDA device",)),
    }
    assert all(row.is_deliverable for row in made.values())
    figures = made["onnx", "fp32"].figures
    assert 100 * figures.reference_accuracy == pytest.approx(run.best_value)
    assert (figures.change_points, figures.agreement) == (0, 1)
    assert figures.max_difference < 1e-5
    assert made["onnx", "int8"].figures.max_difference > 0
    assert made["onnx", "int8"].figures.bytes < figures.bytes / 2
    assert made["tensorrt_rtx", "fp32"].figures.compute_capabilities == ("8.6",)
    assert made["tensorrt_rtx", "fp32"].figures.accuracy is None

    assert exports.export_report_of(jobs[1]).quantisation.n_images == 256
    announced: dict[str, str] = {}
    for job in jobs:
        announced |= announced_by(job)
    assert announced.keys() == {
        *("onnx-fp32/model.onnx", "onnx-int8/model.onnx", "pytorch-fp32/weights.safetensors"),
        *("tensorrt_rtx-fp32/model.onnx", "tensorrt_rtx-fp32/sm86.engine"),
    }
    listed, hashed = of_bundle(bundle_of(user, run.pk, [job.pk for job in jobs]))
    assert listed == hashed
    assert {name for name, sha256 in announced.items() if sha256 not in hashed.values()} == set()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("redis_server")
def test_exports_of_a_training_that_goes_on_wait_for_it_and_are_cancelled_while_they_build(user, digits):
    run = train(user, digits)
    dispatch()
    run.refresh_from_db()
    assert run.status in {Status.STARTING, Status.RUNNING}
    every = ["7.5", "8.0", "8.6", "8.9", "12.0", "12.1"]
    wish = (target("pytorch"), target("tensorrt_rtx", compute_capabilities=every))
    weights, engines = (each.job for each in submit(user, run, *wish))
    for job in (weights, engines):
        assert (job.status, job.wait_reason) == (Status.WAITING, f"Waiting for the training {run.title} to end")
    assert [each.job for each in submit(user, run, *wish)] == [weights, engines]

    assert until_ended(run).status == Status.SUCCEEDED, log_of(run)
    assert until_ended(weights).status == Status.SUCCEEDED, log_of(weights)
    report = exports.export_report_of(weights)
    assert report.checkpoint.name == f"step-{run.best_step}"
    assert (report.verdict.outcome, report.agreement.max_difference < 1e-5) == ("passed", True)
    assert [measured.batch for measured in report.speed.latencies] == [1, 8, 32]

    def builds():
        dispatch()
        engines.refresh_from_db()
        compiling = "engine.export.backends.tensorrt_rtx.compile"
        return engines.stage == "build" and any(compiling in command for command in commands_of(engines))

    until(builds, timeout_s=PATIENCE_S)
    services.job_cancel(user, engines.pk)
    until_ended(engines)
    assert engines.status == Status.CANCELLED, log_of(engines)
    assert not engines.error_code
    until_quiet()
    assert commands_of(engines) == []
    assert_nothing_left(engines)
    assert rows(user, run)["tensorrt_rtx", "fp32"].outcome == ""


@pytest.mark.usefixtures("_quick")
def test_a_network_that_one_backend_refuses_is_made_by_the_others(user, run, monkeypatch):
    def with_odd_end(*given):
        model = whole_model(*given)
        model.graph.node[-1].op_type = "Frobnicate"
        return model

    monkeypatch.setattr("engine.export.converting.whole_model", with_odd_end)
    jobs = [each.job for each in submit(user, run, target("tensorrt_rtx"), target("pytorch"))]
    refused, weights = map(settle, jobs)
    assert (refused.status, refused.error_code) == (Status.FAILED, "export.operator_refused"), log_of(refused)
    assert "does not know the operator Frobnicate (node softmax)" in refused.error_message
    assert "Export it as ONNX" in refused.error_hint
    assert_nothing_left(refused)
    assert weights.status == Status.SUCCEEDED, log_of(weights)
    row = rows(user, run)["tensorrt_rtx", "fp32"]
    assert (row.outcome, row.reasons, row.is_deliverable) == ("failed", (refused.error_message,), False)


def test_a_checkpoint_that_was_changed_and_one_that_is_gone(user, run):
    (checkpoint,) = Artifact.objects.filter(made_by=run, kind="checkpoint", name=f"step-{run.best_step}")
    path = storage().job(run.pk).resolve(checkpoint.path)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    changed = settle(submit_one(user, run).job)
    assert (changed.status, changed.error_code) == (Status.FAILED, "checkpoint.damaged"), log_of(changed)
    assert path.name in changed.error_message
    assert "not the one that was written" in changed.error_message
    assert changed.error_hint

    path.unlink()
    again = submit_one(user, run)
    assert again.is_new
    gone = settle(again.job)
    assert (gone.status, gone.error_code) == (Status.FAILED, "checkpoint.missing"), log_of(gone)
    assert path.name in gone.error_message
    assert gone.error_hint
    for job in (changed, gone):
        assert_nothing_left(job)


@pytest.mark.usefixtures("_quick", "plain_static_names")
def test_a_disk_that_is_full_in_the_middle_and_another_try(user, api, run, monkeypatch):
    def half_written(path, data):
        path.write_bytes(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    job = submit_one(user, run, target("pytorch")).job
    with monkeypatch.context() as full:
        full.setattr("engine.export.backends.pytorch.backend.write_whole", half_written)
        job = settle(job)
    assert (job.status, job.error_code) == (Status.ERRORED, "disk.full"), log_of(job)
    assert "bytes are missing" in job.error_message
    assert job.error_hint.startswith("Free some space")
    assert_nothing_left(job)

    assert "Try again" in api.get(f"/runs/{run.pk}/export/").content.decode()
    assert api.post(reverse("export_again", args=[job.pk])).status_code == 302
    again = settle(Job.objects.filter(verb="export").latest("pk"))
    assert (again.pk != job.pk, again.spec) == (True, job.spec)
    assert again.status == Status.SUCCEEDED, log_of(again)
    assert rows(user, run)["pytorch", "fp32"].outcome == "passed"


def test_calibration_with_too_few_images(user, run, settings, tmp_path):
    settings.IMPORT_ROOTS = [tmp_path]
    tree = class_tree(tmp_path / "few", {"3": 2, "7": 1})
    source = FromFolder(path=str(tree))
    few = settle(
        services.import_submit(
            user, ImportRequest(name="few", source=source, options=ImportOptions(val_pct=0, test_pct=0))
        )
    )
    assert few.status == Status.SUCCEEDED, log_of(few)
    job = settle(submit_one(user, run, target("onnx", "int8"), dataset=few.pk).job)
    assert (job.status, job.error_code) == (Status.FAILED, "export.calibration_too_small"), log_of(job)
    assert "at least 8 calibration images" in job.error_message
    assert "there are 3 of 256" in job.error_message
    assert "more images" in job.error_hint
    assert_nothing_left(job)
