"""Whole exports of a network that was trained for them, mostly by a backend of a few lines."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib

import numpy as np
import pytest
from PIL import Image

from engine.export import latency
from engine.export.backends import Made
from engine.export.trying import NO_IMAGES
from engine.predict.session import Session
from engine.store.predictions import PredictionsReader
from engine.store.reader import DatasetReader
from tests.kits.exporting import FAKE_CARD, FakeBackend, FakeRuntime, export_job, report_of
from tests.kits.predicting import Trained, run_once, shaded_tree, trained
from tests.kits.training import events
from tests.kits.trees import class_tree, imported
from wire.errors import (
    CalibrationTooSmall,
    CheckpointDamaged,
    CheckpointMissing,
    DatasetInvalid,
    DiskFull,
    SpecInvalid,
)
from wire.events import ArtifactMade, Notice, Progress
from wire.exports import TRIED_ELSEWHERE, Failed, NotRun, Passed
from wire.layout import ExportDir, JobDir
from wire.specs import CalibrationOptions, VerificationOptions

pytestmark = pytest.mark.slow

CLASSES = {"cat": 24, "dog": 23, "emu": 25}


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Trained:
    root = tmp_path_factory.mktemp("data")
    tree = shaded_tree(root / "tree", CLASSES)
    for name in ("cat/1", "dog/2", "emu/3", "emu/4"):  # of another size, one of them beyond what golden images may have
        Image.new("RGB", (1500, 11) if name == "emu/4" else (17, 60), "teal").save(tree / f"{name}.png")
    return trained(root, tree, epochs=4)


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latency, "LEAST_RUNS", 2)
        patch.setattr(latency, "WARM_UP_S", 0)
        patch.setattr(latency, "BUDGET_S", 0)
        patch.setattr("engine.export.verb.backend_cards", lambda: {**_cards(), "fake": FAKE_CARD})
        yield


def _cards():
    from engine.catalog import backend_cards

    return backend_cards()


@pytest.fixture(scope="module")
def export(done) -> JobDir:
    FakeRuntime.sizes.clear()
    job = export_job(done)
    assert run_once(job) == "succeeded"
    return job


@pytest.fixture(scope="module")
def sizes_seen(export) -> list[tuple[int, ...]]:
    return [*FakeRuntime.sizes]


def _assert_nothing_left(job: JobDir) -> None:
    assert not job.export_dir.exists()
    assert events(job, ArtifactMade) == []


def test_it_passes_and_says_on_what(done, export):
    report = report_of(export)
    with DatasetReader(done.dataset) as dataset:
        n_images = dataset.count("val")
        assert report.samples_sha256 == dataset.manifest.samples_sha256
    agreement = report.agreement
    assert report.verdict == Passed()
    assert (agreement.split, agreement.n_images, agreement.n_of, agreement.seed) == ("val", n_images, n_images, None)
    assert 100 * agreement.reference_accuracy == pytest.approx(done.metrics["val/top1"])
    assert (agreement.change_points, agreement.agreement) == (0, 1)
    assert agreement.max_difference < 1e-5
    assert report.notes[0] == "Made of nothing."
    assert report.notes[1].startswith(f"The split has {n_images} images, all were tried")
    assert (report.run, report.dataset, report.backend.name) == (2, 1, "fake")
    assert report.versions["fake"] == "1.0"


def test_the_runtime_is_given_the_pictures_at_their_own_size(done, sizes_seen):
    with DatasetReader(done.dataset) as dataset:
        sizes = {(sample.height, sample.width) for sample in dataset.samples("val")}
    assert len(sizes) > 1
    assert sizes <= {shape[1:3] for shape in sizes_seen}
    assert any(shape[0] > 4 for shape in sizes_seen if shape[1:3] == (30, 40))


def test_every_file_is_named_with_its_hash(export):
    report, folder = report_of(export), export.export_dir
    named = {file.path for file in report.files}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there - named == {"report.json", "predictions.sqlite"}
    for file in report.files:
        content = (folder / file.path).read_bytes()
        expected = (hashlib.sha256(content).hexdigest(), len(content), zlib.crc32(content))
        assert (file.sha256, file.bytes, file.crc32) == expected
    assert report.bytes == len(b"weights")


def test_the_artifact_says_what_lists_show(export):
    report = report_of(export)
    (made,) = events(export, ArtifactMade)
    assert (made.artifact, made.name, made.path) == ("export", "export", "artifacts/export")
    report_path = ExportDir(export.export_dir).report_path
    assert made.sha256 == hashlib.sha256(report_path.read_bytes()).hexdigest()
    assert made.bytes == sum(path.stat().st_size for path in export.export_dir.rglob("*") if path.is_file())
    meta = made.meta
    assert (meta["backend"], meta["precision"], meta["outcome"], meta["reasons"]) == ("fake", "fp32", "passed", [])
    assert (meta["accuracy"], meta["change_lower"]) == (
        report.agreement.accuracy,
        report.agreement.change_interval.lower,
    )
    assert meta["p50_ms"] == report.speed.latencies[0].p50_ms
    assert meta["images_per_s"] == report.speed.latencies[2].images_per_s
    assert (meta["device"], meta["compute_capabilities"], meta["n_kept"]) == ("a fake", [], None)
    json.dumps(meta, allow_nan=False)


def test_every_answer_is_a_row(done, export):
    with DatasetReader(done.dataset) as dataset, PredictionsReader(export.export_dir) as predictions:
        rows = predictions.page(limit=1000)
        assert [(row.split, row.sample, row.name, row.label) for row in rows] == [
            ("val", sample.id, sample.name, sample.label) for sample in dataset.samples("val")
        ]
    agreement = report_of(export).agreement
    assert sum(not row.wrong for row in rows) == round(agreement.accuracy * agreement.n_images)
    assert all((row.predicted, row.confidence) == row.top[0] for row in rows)


def test_golden_images_can_be_asked_about_again(done, export):
    session = Session.open(export.resolve(done.checkpoint.path))
    golden = report_of(export).golden
    assert len(golden) == 8
    assert {image.label for image in golden} == {0, 1, 2}
    for image in golden:
        with Image.open(export.export_dir / image.path) as picture:
            assert (picture.mode, picture.format) == ("RGB", "PNG")
            assert max(picture.size) <= 1024
            shares_1K = session.probabilities(session.pixels(picture)[None])
        assert image.probabilities == pytest.approx(shares_1K[0], abs=1e-5)
        assert (image.is_measured, image.tolerance) == (True, 1e-3)


def test_stages_come_in_their_order(export):
    stages = [*dict.fromkeys(event.stage for event in events(export, Progress))]
    assert stages == ["prepare", "build", "verify", "measure", "store"]
    n_images = report_of(export).agreement.n_images
    assert (n_images, n_images) in {
        (event.done, event.total) for event in events(export, Progress) if event.stage == "verify"
    }


def test_run_again_it_says_the_same(done, export):
    job = export_job(done)
    assert run_once(job) == "succeeded"
    timed = {"speed", "build_s", "created_at"}
    assert report_of(job).model_dump(exclude=timed) == report_of(export).model_dump(exclude=timed)


def test_a_sample_is_of_the_size_that_was_asked_for(done):
    job = export_job(done, verification=VerificationOptions(n_images=9, seed=5))
    assert run_once(job) == "succeeded"
    agreement = report_of(job).agreement
    assert (agreement.n_images, agreement.seed) == (9, 5)
    assert agreement.n_of > 9


def test_another_answer_fails_with_its_figures_and_is_kept(done, monkeypatch):
    monkeypatch.setattr(FakeRuntime, "spoilt", staticmethod(lambda shares_NK: np.roll(shares_NK, 1, axis=1)))
    job = export_job(done)
    assert run_once(job) == "succeeded"
    verdict = report_of(job).verdict
    assert isinstance(verdict, Failed)
    assert verdict.reasons[0].startswith("Accuracy fell by ")
    assert verdict.reasons[1] == "On 0.00 % of the images the first answer is PyTorch's; the limit is 99.5 %."
    (made,) = events(job, ArtifactMade)
    assert (made.meta["outcome"], made.meta["reasons"]) == ("failed", [*verdict.reasons])
    assert [notice.code for notice in events(job, Notice)] == ["export.failed"]


def test_answers_that_are_no_numbers_fail(done, monkeypatch):
    monkeypatch.setattr(FakeRuntime, "spoilt", staticmethod(lambda shares_NK: shares_NK * np.float32("nan")))
    job = export_job(done)
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert "not finite" in report.verdict.reasons[0]
    assert (report.agreement.max_difference, report.golden) == (1.0, ())
    with PredictionsReader(job.export_dir) as predictions:
        assert predictions.count(unreadable=True) == report.agreement.n_images


def test_what_cannot_be_run_here_is_never_passed(done, monkeypatch):
    monkeypatch.setattr(FakeBackend, "why_not", "no CUDA device")
    job = export_job(done)
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert report.verdict == NotRun(reason="no CUDA device")
    assert (report.agreement, report.speed) == (None, None)
    assert [image.is_measured for image in report.golden] == [False] * 8
    assert not ExportDir(job.export_dir).predictions_path.exists()
    (made,) = events(job, ArtifactMade)
    assert (made.meta["reasons"], made.meta["accuracy"], made.meta["p50_ms"]) == (["no CUDA device"], None, None)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_what_cannot_be_run_here_is_tried_by_its_graph_and_fails_with_it(done, monkeypatch, is_wrong):
    def build(_self, job):
        FakeBackend.session = job.session
        job.folder.model_path.write_bytes(b"a graph")
        return Made((("source", job.folder.model_path, ""),))

    monkeypatch.setattr(FakeBackend, "why_not", "no CUDA device")
    monkeypatch.setattr(FakeBackend, "build", build)
    monkeypatch.setattr("engine.export.backends.onnx.backend.OnnxBackend.open", lambda *_: FakeRuntime())
    if is_wrong:
        monkeypatch.setattr(FakeRuntime, "spoilt", staticmethod(lambda shares_NK: np.roll(shares_NK, 1, axis=1)))
    job = export_job(done)
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert (report.agreement, report.speed) == (None, None)
    assert report.notes[0].startswith(f"{TRIED_ELSEWHERE}: accuracy ")
    if is_wrong:
        assert report.verdict.reasons[0].startswith("It could not be run here (no CUDA device), and its graph")
        assert report.verdict.reasons[1].startswith("Accuracy fell by ")
    else:
        assert report.verdict == NotRun(reason="no CUDA device")


def _other_dataset(folder, tree: dict[str, dict[str, int]]) -> str:
    for seed, (split, classes) in enumerate(tree.items()):
        class_tree(folder / "tree" / split, classes, size=(40, 30), seed=seed)
    return str(imported(folder / "tree", folder / "job", val_pct=0, test_pct=0))


def test_without_validation_and_test_images_it_is_not_run(done, tmp_path):
    other = _other_dataset(tmp_path, {"train": {"cat": 9, "dog": 9}})
    job = export_job(done, dataset=other)
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert report.verdict == NotRun(reason=NO_IMAGES)
    assert report.speed is not None
    assert len(report.golden) == 8
    with pytest.raises(CalibrationTooSmall, match="at least 8"):
        run_once(export_job(done, "onnx", "int8", calibration=CalibrationOptions(n_images=4)))


def test_images_of_classes_that_the_checkpoint_does_not_know_are_left_out(done, tmp_path):
    other = _other_dataset(tmp_path, {"train": {"ant": 2, "dog": 2, "emu": 2}, "test": {"ant": 4, "dog": 3, "emu": 5}})
    job = export_job(done, dataset=other)
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert (report.agreement.split, report.agreement.n_images, report.agreement.n_of) == ("test", 8, 8)
    assert report.notes[0] == "4 images are left out: the checkpoint does not know the class 'ant'."
    with PredictionsReader(job.export_dir) as predictions:
        assert {row.name.split("/")[1]: row.label for row in predictions.page()} == {"dog": 1, "emu": 2}


def test_what_cannot_be_done_is_refused_by_name(done, tmp_path):
    no_class = _other_dataset(tmp_path, {"train": {"ant": 2, "bee": 2}})
    gone = done.checkpoint.model_copy(update={"path": "../2/artifacts/gone.pt"})
    changed = done.checkpoint.model_copy(update={"sha256": "0" * 64})
    for job, error, match in (
        (export_job(done, checkpoint=None), SpecInvalid, "names no checkpoint"),
        (export_job(done, "abacus"), SpecInvalid, "no backend called 'abacus'"),
        (export_job(done, precision="int8"), SpecInvalid, "Fake has no precision 'int8'"),
        (export_job(done, checkpoint=gone), CheckpointMissing, r"gone\.pt"),
        (export_job(done, checkpoint=changed), CheckpointDamaged, "not the one that was written"),
        (export_job(done, dataset=no_class), DatasetInvalid, "'ant', 'bee'"),
    ):
        with pytest.raises(error, match=match):
            run_once(job)
        _assert_nothing_left(job)


# The looks fall into the preparing, the verifying, the measuring and just before the end.
@pytest.mark.parametrize("look", [1, 2, 3, 5, 8, 12, 20])
def test_cancelled_anywhere_it_leaves_nothing_and_may_be_run_again(done, look):
    job = export_job(done)
    assert run_once(job, stop_at_look=look) == "cancelled"
    _assert_nothing_left(job)
    if look == 5:
        assert run_once(job) == "succeeded"


@pytest.mark.parametrize("place", ["tests.kits.exporting.FakeBackend.build", "engine.export.verb.make_report"])
def test_a_full_disk_is_told_with_what_is_missing(done, place, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(place, full)
    job = export_job(done)
    with pytest.raises(DiskFull, match=r"does not fit into .*export: at least [\d,]+ bytes are needed, [\d,]+ bytes"):
        run_once(job)
    _assert_nothing_left(job)


def test_an_int8_graph_is_calibrated_judged_repaired_and_written_down(done, monkeypatch):
    verdicts = iter([Failed(reasons=("Not good enough.",)), Passed()])
    monkeypatch.setattr("engine.export.converting.judged", lambda *_: next(verdicts))
    job = export_job(done, "onnx", "int8", calibration=CalibrationOptions(n_images=20, keep_float=("hidden.",)))
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert (report.quantisation.n_images, report.quantisation.n_layers) == (20, 5)
    asked, hurt = report.quantisation.kept
    assert (asked.name, asked.why, hurt.why) == ("hidden.0", "asked", "hurt")
    assert 0 <= hurt.agreement <= 1
    assert 0 < report.agreement.max_difference < 0.2
    assert [file.path for file in report.files if file.role == "model"] == ["model.onnx"]
    assert events(job, ArtifactMade)[0].meta["n_kept"] == 2
    stages = {event.stage for event in events(job, Progress)}
    assert stages == {"prepare", "convert", "calibrate", "repair", "build", "verify", "measure", "store"}


def test_an_int8_graph_with_nothing_left_of_int8_has_failed(done, monkeypatch):
    monkeypatch.setattr("engine.export.converting.judged", lambda *_: Failed(reasons=("Not good enough.",)))
    job = export_job(done, "onnx", "int8", calibration=CalibrationOptions(n_images=20))
    assert run_once(job) == "succeeded"
    report = report_of(job)
    assert len(report.quantisation.kept) == 5
    assert report.verdict == Failed(reasons=("All 5 layers had to go back to float: nothing of it is INT8.",))
