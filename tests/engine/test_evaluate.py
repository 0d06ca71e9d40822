"""Whole evaluations of a network that was trained for them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from engine.checkpoint import read_checkpoint, write_durable
from engine.store.predictions import PredictionsReader
from engine.store.reader import DatasetReader
from tests.kits.predicting import run_once, shaded_tree, start, trained
from tests.kits.training import events
from tests.kits.trees import class_tree, imported
from tests.surroundings import until
from wire.errors import CheckpointDamaged, CheckpointMissing, DatasetInvalid, DatasetMissing
from wire.evaluation import EvaluationReport
from wire.events import ArtifactMade, Notice, Progress, RunEnded, Scalars
from wire.layout import JobDir, PredictionsDir
from wire.specs import ExitReport

pytestmark = pytest.mark.slow

CLASSES = {"cat": 24, "dog": 23, 'emu\'s "nest" 🐈': 25}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    return trained(root, shaded_tree(root / "tree", CLASSES), epochs=6, test_pct=10)


@pytest.fixture(scope="module")
def evaluation(done):
    job = done.evaluation()
    assert run_once(job) == "succeeded"
    return job


def _report(job: JobDir) -> EvaluationReport:
    return EvaluationReport.model_validate_json(PredictionsDir(job.evaluation_dir).report_path.read_bytes())


def _notices(job: JobDir) -> dict[str, str]:
    return {notice.code: notice.text for notice in events(job, Notice)}


def _assert_nothing_left(job: JobDir) -> None:
    assert not job.evaluation_dir.exists()
    assert events(job, ArtifactMade) == []


def test_it_says_what_the_training_said(done, evaluation):
    val, test = _report(evaluation).splits
    assert (val.split, test.split) == ("val", "test")
    assert len(val.confusion) > 4  # else being equal says little
    assert 100 * val.top1 == pytest.approx(done.metrics["val/top1"])
    assert val.loss == pytest.approx(done.metrics["val/loss"], rel=1e-5)


def test_every_number_names_its_checkpoint_and_dataset(done, evaluation):
    report = _report(evaluation)
    assert report.checkpoint == done.checkpoint
    assert (report.run, report.dataset, report.dataset_name) == (2, 1, "tree")
    with DatasetReader(done.dataset) as reader:
        assert report.samples_sha256 == reader.manifest.samples_sha256
        assert report.classes == reader.manifest.classes
        assert [split.n_images for split in report.splits] == [reader.count("val"), reader.count("test")]
    assert (report.notes, report.device) == ((), "CPU")


def test_the_artifact_says_what_pages_show(done, evaluation):
    (made,) = events(evaluation, ArtifactMade)
    assert (made.artifact, made.name, made.path) == ("report", "evaluation", "artifacts/evaluation")
    report_bytes = PredictionsDir(evaluation.evaluation_dir).report_path.read_bytes()
    assert made.sha256 == hashlib.sha256(report_bytes).hexdigest()
    assert made.bytes == sum(path.stat().st_size for path in evaluation.evaluation_dir.iterdir())
    val = _report(evaluation).splits[0]
    assert made.meta["splits"]["val"] == {
        "n_images": val.n_images, "loss": val.loss, "top1": val.top1, "top5": None, "macro_f1": val.macro_f1,
        "ece": val.ece,
    }  # fmt: skip
    assert made.meta["checkpoint"]["step"] == done.checkpoint.step
    json.dumps(made.meta, allow_nan=False)
    assert events(evaluation, Scalars) == []  # curves are the training's
    assert not evaluation.scratch_dir.exists() or not any(evaluation.scratch_dir.iterdir())


def test_every_image_has_its_row(done, evaluation):
    with DatasetReader(done.dataset) as dataset, PredictionsReader(evaluation.evaluation_dir) as predictions:
        samples = [*dataset.samples("val"), *dataset.samples("test")]
        rows = predictions.page(limit=1000)
        assert predictions.classes == dataset.manifest.classes
        assert [(row.split, row.sample, row.name, row.label) for row in rows] == [
            (sample.split, sample.id, sample.name, sample.label) for sample in samples
        ]
        for split in _report(evaluation).splits:
            n_right = predictions.count(split=split.split, wrong=False)
            assert n_right == round(split.top1 * split.n_images)
            for cell in split.confusion:
                count = predictions.count(split=split.split, label=cell.label, predicted=cell.predicted)
                assert count == cell.n_images
            losses = [row.loss for row in rows if row.split == split.split]
            assert sum(losses) / len(losses) == pytest.approx(split.loss)
        for row in rows:
            assert (row.predicted, row.confidence) == row.top[0]
            assert len(row.top) == 3
            assert row.truth_probability == pytest.approx(dict(row.top)[row.label])
            assert row.error is None


def test_progress_ends_with_all_images(evaluation):
    told = [event for event in events(evaluation, Progress) if event.stage == "evaluate"]
    n_images = sum(split.n_images for split in _report(evaluation).splits)
    assert (told[-1].done, told[-1].total) == (n_images, n_images)


def test_images_that_the_training_decoded_are_not_decoded_again(evaluation):
    decoded = [event.total for event in events(evaluation, Progress) if event.stage == "prepare"]
    assert set(decoded) == {_report(evaluation).splits[1].n_images}  # the test split alone


def test_it_runs_from_a_shell_with_nothing_but_its_folder(done, evaluation):
    job = done.evaluation()
    process = start(job)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert events(job, RunEnded)[-1].outcome == "succeeded"
    mine, theirs = _report(job), _report(evaluation)
    assert mine.splits == theirs.splits
    assert "val: top-1" in output


def test_run_again_it_makes_the_same_again(done):
    job = done.evaluation(splits=("val",))
    assert run_once(job) == "succeeded"
    before = _report(job)
    assert run_once(job) == "succeeded"
    assert _report(job).splits == before.splits
    assert len(events(job, ArtifactMade)) == 2


def test_without_a_validation_split_it_is_said(tmp_path):
    done = trained(tmp_path, class_tree(tmp_path / "tree", {"cat": 9, "dog": 8}), val_pct=0, test_pct=25)
    job = done.evaluation()
    assert run_once(job) == "succeeded"
    assert [split.split for split in _report(job).splits] == ["test"]
    assert _report(job).notes == ("The dataset 'tree' has no validation images.",)
    assert "evaluation.no_val" in _notices(job)


def test_without_any_split_to_evaluate_on_it_is_refused(tmp_path):
    done = trained(tmp_path, class_tree(tmp_path / "tree", {"cat": 9, "dog": 8}), val_pct=0)
    job = done.evaluation()
    with pytest.raises(DatasetInvalid, match="no images in val or test"):
        run_once(job)
    _assert_nothing_left(job)
    train_alone = done.evaluation(splits=("train",))
    assert run_once(train_alone) == "succeeded"
    assert [split.n_images for split in _report(train_alone).splits] == [17]


def _other_dataset(done, folder: Path, tree: dict[str, dict[str, int]]) -> str:
    for seed, (split, classes) in enumerate(tree.items()):
        class_tree(folder / "tree" / split, classes, size=(40, 30), seed=seed)
    return str(imported(folder / "tree", folder / "job"))


def test_one_image(done, tmp_path):
    other = _other_dataset(done, tmp_path, {"train": {"cat": 2, "dog": 2}, "val": {"cat": 1}})
    job = done.evaluation(dataset=other)
    assert run_once(job) == "succeeded"
    (val,) = _report(job).splits
    assert val.n_images == 1
    assert [score.support for score in val.classes] == [1, 0, 0]
    assert [score.recall is None for score in val.classes] == [False, True, True]


def test_classes_are_matched_by_name_and_others_left_out_with_a_note(done, tmp_path):
    other = _other_dataset(
        done, tmp_path, {"train": {"aardvark": 2, "dog": 2, "cat": 2}, "val": {"aardvark": 4, "cat": 3, "dog": 5}}
    )
    job = done.evaluation(dataset=other, splits=("val",))
    assert run_once(job) == "succeeded"
    report = _report(job)
    assert report.classes == tuple(CLASSES)
    assert [score.support for score in report.splits[0].classes] == [3, 5, 0]
    assert report.notes == ("4 images are left out: the checkpoint does not know the class 'aardvark'.",)
    with PredictionsReader(job.evaluation_dir) as predictions:
        rows = predictions.page()
    assert {row.name.split("/")[1]: row.label for row in rows} == {"cat": 0, "dog": 1}
    assert [row.id for row in rows] == list(range(1, 9))


def test_no_class_in_common_is_refused_by_name(done, tmp_path):
    other = _other_dataset(done, tmp_path, {"train": {"ant": 2, "bee": 2}, "val": {"ant": 2, "bee": 2}})
    job = done.evaluation(dataset=other)
    with pytest.raises(DatasetInvalid, match=r"'ant', 'bee'.*'cat', 'dog'"):
        run_once(job)
    _assert_nothing_left(job)


def test_no_class_in_common_within_the_splits_is_refused_too(done, tmp_path):
    other = _other_dataset(done, tmp_path, {"train": {"cat": 2, "bee": 2}, "val": {"bee": 2}})
    job = done.evaluation(dataset=other)
    with pytest.raises(DatasetInvalid, match="no image in validation of a class"):
        run_once(job)
    _assert_nothing_left(job)


def test_a_missing_or_changed_checkpoint_is_told(done):
    job = done.evaluation(checkpoint=done.checkpoint.model_copy(update={"path": "../2/artifacts/gone.pt"}))
    with pytest.raises(CheckpointMissing, match=r"gone\.pt"):
        run_once(job)
    job = done.evaluation(checkpoint=done.checkpoint.model_copy(update={"sha256": "0" * 64}))
    with pytest.raises(CheckpointDamaged, match="not the one that was written"):
        run_once(job)
    job = done.evaluation(dataset="../99/artifacts/dataset")
    with pytest.raises(DatasetMissing):
        run_once(job)


# Some looks fall into the decoding, some between batches.
@pytest.mark.parametrize("look", [1, 2, 9])
def test_cancelled_in_the_middle_it_leaves_nothing_and_may_be_run_again(look, done, evaluation, monkeypatch):
    monkeypatch.setattr("engine.predict.session.Session.batch_size", 4)
    job = done.evaluation()
    assert run_once(job, stop_at_look=look) == "cancelled"
    _assert_nothing_left(job)
    assert run_once(job) == "succeeded"
    assert _report(job).splits[0].top1 == _report(evaluation).splits[0].top1


def test_cancelled_while_images_are_decoded(done, tmp_path):
    other = _other_dataset(done, tmp_path, {"train": {"cat": 2, "dog": 2}, "val": {"cat": 9, "dog": 9}})
    job = done.evaluation(dataset=other)
    assert run_once(job, stop_at_look=5) == "cancelled"
    _assert_nothing_left(job)


def test_killed_it_leaves_nothing_that_counts_and_may_be_run_again(done):
    job = done.evaluation()
    process = start(job)
    until(lambda: job.scratch_dir.joinpath("evaluation").exists())
    process.kill()
    process.communicate()
    _assert_nothing_left(job)
    # As if it had been killed between its last rename and the announcement.
    job.evaluation_dir.mkdir(parents=True)
    (job.evaluation_dir / "half.txt").write_text("rubbish")
    process = start(job)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert {path.name for path in job.evaluation_dir.iterdir()} == {"predictions.sqlite", "report.json"}
    assert not job.scratch_dir.exists()


def test_outputs_that_are_not_finite_are_counted_and_told(done, tmp_path):
    payload = read_checkpoint(done.storage.job(3).resolve(done.checkpoint.path))
    payload.pop("format")
    bias = [name for name in payload["network"] if name.endswith("bias")][-1]
    payload["network"][bias] = torch.full_like(payload["network"][bias], torch.nan)
    written = write_durable(payload, tmp_path / "broken.pt", scratch_dir=tmp_path / "scratch")
    broken = done.checkpoint.model_copy(update={"path": str(tmp_path / "broken.pt"), "sha256": written.sha256})
    job = done.evaluation(checkpoint=broken, splits=("val",))
    assert run_once(job) == "succeeded"
    (val,) = _report(job).splits
    assert (val.loss, val.top1, val.confusion) == (None, 0, ())
    assert "not finite" in _notices(job)["evaluation.not_finite"]
    assert _report(job).run is None
    with PredictionsReader(job.evaluation_dir) as predictions:
        row = predictions.page()[0]
    assert (row.predicted, row.loss, row.top) == (None, None, ())
    assert row.error == "the network's outputs are not finite"


def test_an_error_ends_as_an_exit_report(done):
    job = done.evaluation(checkpoint=done.checkpoint.model_copy(update={"sha256": "0" * 64}))
    process = start(job)
    output, _ = process.communicate()
    assert process.returncode == 64, output
    ended = ExitReport.model_validate_json(job.attempt(1).exit_path.read_bytes())
    assert (ended.outcome, ended.code) == ("failed", "checkpoint.damaged")
