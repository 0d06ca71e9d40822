"""What a training carries besides its weights: their average, the epochs without gain, the best, a fixed order."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.predict.session import Session
from engine.train.determinism import Determinism
from engine.train.ema import Average
from tests.kits.training import curves, events, kept_checkpoints, last_checkpoint, new_job, same, train_once
from tests.kits.trees import class_tree, imported
from wire.errors import LabelsOutOfRange
from wire.events import AttemptStarted, CheckpointBest, Notice, Scalars
from wire.layout import DatasetDir

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"epochs": 3, "log_every": 2, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    return imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)


class TestAverage:
    def test_it_follows_weights_and_statistics_with_the_decay_and_copies_counters(self):
        network = nn.BatchNorm1d(1)
        average = Average(network, 0.5)
        with torch.no_grad():
            network.weight.fill_(3.0)
        network.running_mean.fill_(11.0)
        network.num_batches_tracked.fill_(7)
        average.update()
        # Early on the decay is smaller than it is set: 2/11 of the old value in the first update.
        assert average.network.weight.item() == pytest.approx(1 * 2 / 11 + 3 * 9 / 11)
        assert average.network.running_mean.item() == pytest.approx(11 * 9 / 11)
        assert average.network.num_batches_tracked.item() == 7
        for _ in range(20):
            average.update()
        before = average.network.weight.item()
        with torch.no_grad():
            network.weight.fill_(5.0)
        average.update()
        assert average.network.weight.item() == pytest.approx((before + 5) / 2)

    def test_it_is_what_is_validated_saved_and_used(self, dataset, tmp_path):
        plain, averaged = (new_job(tmp_path / name, dataset, **OPTIONS) for name in ("plain", "averaged"))
        spec = averaged.spec_path.read_text().replace('"ema_decay":0.0', '"ema_decay":0.99')
        averaged.spec_path.write_text(spec)
        assert train_once(plain) == train_once(averaged) == "succeeded"
        # The training is the same, what is validated is not.
        first, second = curves(plain), curves(averaged)
        assert second["train/loss"] == first["train/loss"]
        assert second["val/loss"] != first["val/loss"]
        payload = last_checkpoint(averaged)
        assert same(payload["trained"], last_checkpoint(plain)["network"])
        # After 15 updates the decay is 16/25: the average is near, and behind.
        rate = 3e-3
        for name, value in payload["network"].items():
            apart = (value - payload["trained"][name]).abs().max().item()
            assert 0 < apart < 10 * rate, name
        assert payload["n_averaged"] == 15
        made = kept_checkpoints(averaged)[-1]
        session = Session.open(averaged.resolve(made.path), sha256=made.sha256)
        assert same(dict(session.network.state_dict()), dict(payload["network"]))


class TestEarlyStopping:
    def test_it_ends_after_so_many_epochs_without_gain_and_says_so(self, dataset, tmp_path):
        # With no rate to speak of, the first epoch stays the best by accuracy.
        options = {**OPTIONS, "epochs": 30, "learning_rate": 1e-12, "early_stopping_epochs": 2, "log_every": 7}
        job = new_job(tmp_path / "job", dataset, **options)
        assert train_once(job) == "succeeded"
        assert [step for step, _ in curves(job)["val/top1"]] == [5, 10, 15]
        # Nothing of the last epoch is untold.
        assert [step for step, _ in curves(job)["train/loss"]] == [7, 14, 15]
        told = [notice for notice in events(job, Notice) if notice.code == "run.ended_early"]
        assert len(told) == 1
        assert "after epoch 3 of 30" in told[0].text
        assert "val/top1 has not improved for 2 epochs" in told[0].text
        assert kept_checkpoints(job)[-1].meta["epochs_done"] == 3
        # It does not go on where it has ended.
        assert train_once(job) == "succeeded"
        assert curves(job)["val/top1"][-1][0] == 15
        assert events(job, AttemptStarted)[-1].from_step == 15
        assert len([notice for notice in events(job, Notice) if notice.code == "run.ended_early"]) == 1

    def test_a_stop_in_between_does_not_begin_the_count_anew(self, dataset, tmp_path):
        options = {**OPTIONS, "epochs": 30, "learning_rate": 1e-12, "early_stopping_epochs": 3}
        assert train_once(new_job(tmp_path / "first", dataset, epochs=1)) == "succeeded"  # and fills the cache
        job = new_job(tmp_path / "job", dataset, **options)
        assert train_once(job, stop_at_look=18) == "cancelled"
        assert last_checkpoint(job)["n_stale_epochs"] == 1
        assert train_once(job) == "succeeded"
        assert [step for step, _ in curves(job)["val/top1"]] == [5, 10, 15, 20]


def test_so_many_of_the_best_are_on_the_shelf_at_the_end(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, **{**OPTIONS, "epochs": 8, "keep_best": 3, "checkpoint_every": 5})
    assert train_once(job) == "succeeded"
    value_at = {step: value for step, value in curves(job)["val/top1"] if value is not None}
    expected = sorted(value_at, key=lambda step: (-value_at[step], step))[:3]
    assert [best["step"] for best in last_checkpoint(job)["ranking"]] == expected
    assert events(job, CheckpointBest)[-1].step == expected[0]
    kept = {made.meta["step"] for made in kept_checkpoints(job)}
    assert kept == {*expected, 35, 40}


class TestDeterminism:
    def test_it_holds_within_and_leaves_torch_as_it_was(self):
        before = torch.backends.cudnn.benchmark
        with Determinism(wanted=True):
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.is_deterministic_algorithms_warn_only_enabled()
            assert not torch.backends.cudnn.benchmark
        assert not torch.are_deterministic_algorithms_enabled()
        with Determinism(wanted=False):
            assert torch.backends.cudnn.benchmark
            assert not torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cudnn.benchmark == before

    def test_it_notes_what_has_no_fixed_order_and_passes_on_other_warnings(self):
        def warn() -> None:
            for name in ("index_add_cuda_", "index_add_cuda_", "adaptive_avg_pool2d_backward_cuda"):
                text = f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_"
                warnings.warn(text, stacklevel=1)
            warnings.warn("something else", stacklevel=1)

        with pytest.warns(UserWarning, match="something else") as told, Determinism(wanted=True, known=["a"]) as kept:
            warn()
        assert kept.operations == ["a", "adaptive_avg_pool2d_backward_cuda", "index_add_cuda_"]
        assert [str(one.message) for one in told] == ["something else"]

    def test_a_run_with_it_resumes_exactly(self, dataset, tmp_path):
        options = {**OPTIONS, "deterministic": True, "augmentation": "photo"}
        whole, stopped = (new_job(tmp_path / name, dataset, **options) for name in ("whole", "stopped"))
        assert train_once(whole) == "succeeded"
        assert train_once(stopped, stop_at_look=7) == "cancelled"
        assert train_once(stopped) == "succeeded"
        assert same(last_checkpoint(stopped), last_checkpoint(whole))
        assert curves(stopped) == curves(whole)


@pytest.mark.parametrize("label", [2, 7])
def test_a_label_that_no_class_has_is_refused_by_name_before_a_step(label, tmp_path):
    dataset = imported(class_tree(tmp_path / "tree", {"cat": 6, "dog": 6}), tmp_path / "job", val_pct=0)
    rows = sqlite3.connect(DatasetDir(dataset).samples_path)
    rows.execute("UPDATE samples SET label = ? WHERE name LIKE '%dog/3.png'", (label,))
    rows.commit()
    rows.close()
    job = new_job(tmp_path / "training", dataset)
    with pytest.raises(LabelsOutOfRange, match=rf"'dog/3\.png' of the dataset 'tree' has class number {label}") as told:
        train_once(job)
    assert "0 to 1" in told.value.message
    assert events(job, Scalars) == []
