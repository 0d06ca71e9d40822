"""Whole trainings on a few images."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.catalog import model_cards
from engine.checkpoint import read_checkpoint
from engine.seeds import seed_all
from tests.kits.training import curves, envelopes, events, kept_checkpoints, last_checkpoint, new_job, same, train_once
from tests.kits.trees import class_tree, imported
from wire.cards import WeightsCard
from wire.errors import (
    CheckpointMissing,
    DatasetInvalid,
    DatasetMissing,
    DeviceMissing,
    LossNotFinite,
    SpecInvalid,
    WeightsMismatch,
    WeightsMissing,
)
from wire.events import ArtifactMade, AttemptStarted, CheckpointBest, Notice, Progress, Scalars
from wire.layout import JobDir
from wire.specs import FromCheckpoint, FromPublished, TrainSpec

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    return imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)


@pytest.fixture(scope="module")
def without_val(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without val")
    return imported(class_tree(folder / "tree", {"cat": 9, "dog": 8}), folder / "job", val_pct=0)


@pytest.fixture(scope="module")
def done(dataset: Path) -> JobDir:
    job = new_job(dataset.parents[2] / "done", dataset, epochs=3, log_every=2)
    assert train_once(job) == "succeeded"
    return job


def _notices(job: JobDir) -> list[str]:
    return [event.code for event in events(job, Notice)]


def test_it_begins_with_what_is_to_come(done):
    start = envelopes(done)[0].event
    assert isinstance(start, AttemptStarted)
    assert (start.n, start.from_step, start.steps_per_epoch, start.total_steps) == (1, 0, 5, 15)
    declared = {info.name: (info.unit, info.better) for info in start.series}
    assert declared["val/top1"] == ("%", "higher")
    assert declared["train/loss"] == ("", "lower")
    assert {"lr", "time/images_s", "time/data_wait_pct", "cpu/util_pct", "ram/used_gib"} <= set(declared)
    told = {name for event in events(done, Scalars) for name in event.values}
    assert told == set(declared)


def test_curves_have_their_points_at_stated_steps(done):
    drawn = curves(done)
    assert [step for step, _ in drawn["train/loss"]] == [2, 4, 6, 8, 10, 12, 14, 15]
    assert [step for step, _ in drawn["lr"]] == [2, 4, 6, 8, 10, 12, 14, 15]
    assert [step for step, _ in drawn["val/top1"]] == [5, 10, 15]
    assert all(value is not None and math.isfinite(value) for points in drawn.values() for _, value in points)


def test_progress_ends_with_all_steps_done(done):
    told = events(done, Progress)
    assert told[0].stage == "prepare"
    assert (told[-1].stage, told[-1].done, told[-1].total) == ("train", 15, 15)


def test_its_last_checkpoint_says_how_to_use_the_network(done):
    made = kept_checkpoints(done)[-1]
    assert made.name == "step-15"
    assert made.path == "artifacts/checkpoints/step-15.pt"
    assert made.bytes == done.resolve(made.path).stat().st_size
    about = {name: made.meta[name] for name in ("step", "epoch", "model", "task", "classes", "image_px", "colour")}
    assert about == {
        "step": 15, "epoch": 3.0, "model": "lenet5", "task": "classification", "classes": ["cat", "dog"],
        "image_px": 32, "colour": "rgb",
    }  # fmt: skip
    assert set(made.meta["metrics"]) == {"train/loss", "train/top1", "val/loss", "val/top1"}


def test_the_best_is_the_highest_of_its_series_and_still_there(done):
    best = events(done, CheckpointBest)[-1]
    points = dict(curves(done)["val/top1"])
    assert best.series == "val/top1"
    assert best.value == points[best.step] == max(value for value in points.values() if value is not None)
    assert best.artifact in {made.name for made in kept_checkpoints(done)}


def test_a_run_repeats_itself_bit_for_bit(done, dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, epochs=3, log_every=2)
    assert train_once(job) == "succeeded"
    assert curves(job) == curves(done)
    assert same(last_checkpoint(job)["network"], last_checkpoint(done)["network"])


def test_noise_is_learned_by_heart(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, epochs=40, learning_rate=5e-3)
    assert train_once(job) == "succeeded"
    train_loss = [value for _, value in curves(job)["train/loss"] if value is not None]
    assert train_loss[0] == pytest.approx(math.log(2), abs=0.2)
    assert train_loss[-1] < 0.1


def test_without_validation_the_training_loss_chooses_and_it_is_told(without_val, tmp_path):
    job = new_job(tmp_path / "job", without_val, epochs=3)
    assert train_once(job) == "succeeded"
    assert "dataset.no_val" in _notices(job)
    assert {event.series for event in events(job, CheckpointBest)} == {"train/loss"}
    assert not any(name.startswith("val/") for name in curves(job))
    assert not any(info.name.startswith("val/") for info in events(job, AttemptStarted)[0].series)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 8, 16, 17, 64])
def test_the_announced_steps_are_those_that_are_made(batch_size, without_val, tmp_path):
    # 17 images: with 8 and 16 the last batch would be a single one, which is left out.
    job = new_job(tmp_path / "job", without_val, epochs=1, batch_size=batch_size)
    assert train_once(job) == "succeeded"
    assert kept_checkpoints(job)[-1].meta["step"] == events(job, AttemptStarted)[0].total_steps


@pytest.mark.parametrize("precision", ["auto", "fp32", "bf16", "fp16"])
@pytest.mark.parametrize("colour", ["rgb", "grey"])
def test_every_precision_and_colour_trains(precision, colour, dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, epochs=1, precision=precision, colour=colour)
    assert train_once(job) == "succeeded"
    expected = {"fp32", "bf16"} if precision == "auto" else {precision}
    assert last_checkpoint(job)["precision"] in expected


@pytest.mark.parametrize("optimiser", ["sgd", "nesterov", "adamw"])
def test_weight_decay_leaves_biases_and_norms_alone(optimiser, dataset, tmp_path):
    job = new_job(
        tmp_path / "job", dataset, model="resnet20", image_px=8, optimiser=optimiser, weight_decay=0.5, epochs=1
    )
    assert train_once(job) == "succeeded"
    payload = last_checkpoint(job)
    decayed, free = payload["optimiser"]["param_groups"]
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.5, 0.0)
    n_matrices = sum(value.ndim > 1 for value in payload["network"].values())
    assert len(decayed["params"]) == n_matrices == 20


@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_a_learning_rate_beyond_all_bounds_stops_at_the_first_loss_that_is_not_finite(optimiser, dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, learning_rate=1e15, optimiser=optimiser, epochs=30)
    with pytest.raises(LossNotFinite, match=r"at step \d+ \(epoch \d+\), with a learning rate of") as raised:
        train_once(job)
    assert "Lower the learning rate" in raised.value.hint
    last = events(job, Scalars)[-1]
    nonfinite = [event for event in events(job, Scalars) if event.nonfinite]
    assert len(nonfinite) == 1
    assert nonfinite[0].values == {"train/loss": None}
    assert f"at step {nonfinite[0].step} " in raised.value.message
    assert last.step <= nonfinite[0].step


def test_the_tasks_options_reach_the_loss(done, dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, epochs=1, log_every=2, task_options={"label_smoothing": 0.5})
    assert train_once(job) == "succeeded"
    assert curves(job)["train/loss"][0] != curves(done)["train/loss"][0]


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"model": "lenet6"}, SpecInvalid, "no model called 'lenet6'"),
        ({"image_px": 31}, SpecInvalid, "at least 32 px, not 31"),
        ({"model_options": {"activation": "sine"}}, SpecInvalid, "LeNet-5: the option 'activation'"),
        ({"task_options": {"label_smoothing": 1.5}}, SpecInvalid, "the option 'label_smoothing'"),
        ({"model": "resnet18", "batch_size": 1}, SpecInvalid, "normalises over the batch"),
        ({"init": FromPublished(weights="imagenet")}, SpecInvalid, "no published weights 'imagenet'"),
        ({"init": FromCheckpoint(path="../9/step-1.pt")}, CheckpointMissing, "step-1.pt"),
    ],
)
def test_what_cannot_work_is_refused_by_name(changes, kind, told, dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, **changes)
    with pytest.raises(kind, match=told) as refused:
        train_once(job)
    assert refused.value.hint


def test_a_dataset_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DatasetMissing):
        train_once(new_job(tmp_path / "job", tmp_path / "nowhere"))


def test_a_dataset_without_images_to_train_on_is_told(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("wire.manifests.DatasetManifest.n_images", lambda *_: 0)
    with pytest.raises(DatasetInvalid, match="no image to train on"):
        train_once(new_job(tmp_path / "job", dataset))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_told(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset)
    spec = TrainSpec.model_validate_json(job.spec_path.read_bytes()).model_copy(update={"device": "cuda"})
    job.spec_path.write_text(spec.model_dump_json())
    with pytest.raises(DeviceMissing):
        train_once(job)


class TestFromCheckpoint:
    def _job(self, folder: Path, dataset: Path, done: JobDir, **options: Any) -> JobDir:
        path = f"../{done.path.name}/{kept_checkpoints(done)[-1].path}"
        return new_job(done.path.parent / folder.name, dataset, init=FromCheckpoint(path=path), epochs=1, **options)

    def test_equal_classes_keep_the_head_and_the_normalisation(self, dataset, done, tmp_path):
        job = self._job(tmp_path, dataset, done, learning_rate=1e-12, warmup_pct=0)
        assert train_once(job) == "succeeded"
        first, second = last_checkpoint(done), last_checkpoint(job)
        torch.testing.assert_close(second["network"], first["network"], rtol=0, atol=1e-6)
        assert (second["mean"], second["std"]) == (first["mean"], first["std"])
        assert "the classes are the same" in events(job, Notice)[0].text

    def test_other_classes_get_a_new_head_and_it_is_told(self, without_val, done, tmp_path):
        tree = class_tree(tmp_path / "tree", {"ant": 9, "bee": 9, "cow": 9})
        job = self._job(tmp_path, imported(tree, tmp_path / "job"), done, learning_rate=1e-12, warmup_pct=0)
        assert train_once(job) == "succeeded"
        first, second = last_checkpoint(done)["network"], last_checkpoint(job)["network"]
        torch.testing.assert_close(second["hidden.0.weight"], first["hidden.0.weight"], rtol=0, atol=1e-6)
        assert second["head.weight"].shape == (3, 84)
        assert "the last layer is new" in events(job, Notice)[0].text

    def test_a_grey_run_may_begin_from_a_coloured_one(self, dataset, done, tmp_path):
        job = self._job(tmp_path, dataset, done, colour="grey", learning_rate=1e-12, warmup_pct=0)
        assert train_once(job) == "succeeded"
        weight = last_checkpoint(done)["network"]["features.0.weight"].sum(dim=1, keepdim=True)
        torch.testing.assert_close(last_checkpoint(job)["network"]["features.0.weight"], weight, rtol=0, atol=1e-6)

    def test_another_model_is_refused(self, dataset, done, tmp_path):
        job = self._job(tmp_path, dataset, done, model="resnet20")
        with pytest.raises(WeightsMismatch, match="holds the model 'lenet5', the job asks for 'resnet20'"):
            train_once(job)

    def test_a_resumed_run_needs_what_it_began_with_no_more(self, dataset, done, tmp_path):
        origin = done.path.parent / f"{tmp_path.name} origin.pt"
        origin.write_bytes(done.resolve(kept_checkpoints(done)[-1].path).read_bytes())
        job = new_job(
            done.path.parent / tmp_path.name, dataset, init=FromCheckpoint(path=f"../{origin.name}"), epochs=1
        )
        assert train_once(job, stop_at_look=2) == "cancelled"
        origin.unlink()
        assert train_once(job) == "succeeded"


class TestFromPublished:
    @pytest.fixture
    def card(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WeightsCard:
        """Weights of a thousand classes in a mirror, as the card of LeNet-5 says."""
        model = model_cards()["lenet5"]
        seed_all(5)
        network = model.load().build(n_classes=1000, in_channels=3, image_px=32, options=model.options())
        path = tmp_path / "mirror" / "lenet5.pth"
        path.parent.mkdir()
        torch.save(network.state_dict(), path)
        card = WeightsCard(
            name="v1",
            file=path.name,
            url="http://127.0.0.1:9/lenet5.pth",
            sha256=hashlib.sha256(path.read_bytes()).hexdigest()[:8],
            source="a test",
            licence="none",
        )
        monkeypatch.setitem(model_cards(), "lenet5", replace(model, weights=(card,)))
        return card

    def test_they_are_taken_with_the_normalisation_they_were_made_with(self, card, dataset, tmp_path):
        job = new_job(
            tmp_path / "job", dataset, init=FromPublished(weights="v1"), epochs=1, learning_rate=1e-12, warmup_pct=0
        )
        assert train_once(job, weights_dir=tmp_path / "mirror") == "succeeded"
        payload = last_checkpoint(job)
        published = torch.load(tmp_path / "mirror" / card.file, weights_only=True)  # noqa: TID251 - the test's own file
        torch.testing.assert_close(
            payload["network"]["hidden.0.weight"], published["hidden.0.weight"], rtol=0, atol=1e-6
        )
        assert payload["network"]["head.weight"].shape == (2, 84)
        assert payload["mean"] == [0.485, 0.456, 0.406]
        assert "lenet5.pth" in events(job, Notice)[0].text

    def test_where_no_place_has_them_the_run_says_what_to_do(self, card, dataset, tmp_path, monkeypatch):
        monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
        job = new_job(tmp_path / "job", dataset, init=FromPublished(weights="v1"))
        with pytest.raises(WeightsMissing, match=card.file):
            train_once(job)


def test_checkpoints_are_files_that_others_can_open(done):
    made = events(done, ArtifactMade)[-1]
    payload = read_checkpoint(done.resolve(made.path), sha256=made.sha256)
    model = model_cards()[payload["model"]]
    network = model.load().build(
        n_classes=len(payload["classes"]), in_channels=3, image_px=payload["image_px"], options=model.options()
    )
    network.load_state_dict(payload["network"])
