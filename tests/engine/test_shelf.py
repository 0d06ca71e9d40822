from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from engine.checkpoint import read_checkpoint
from engine.emit import MemorySink
from engine.train.shelf import Best, Shelf, Snapshot
from wire.events import ArtifactDropped, ArtifactMade, CheckpointBest
from wire.layout import JobDir

pytestmark = pytest.mark.slow


class Bench:
    """A shelf whose clock and whose weights are the test's."""

    def __init__(self, folder: Path, *, checkpoint_every: int = 0, keep_best: int = 1) -> None:
        self.now = 1000.0
        self.job = JobDir(folder)
        self.sink = MemorySink()
        self.weight = torch.zeros(3)
        self.shelf = Shelf(
            self.job,
            self.sink,
            kept={},
            announced_best=None,
            checkpoint_every=checkpoint_every,
            keep_best=keep_best,
            clock=lambda: self.now,
        )

    def snapshot(self, step: int) -> Snapshot:
        return Snapshot(step, {"weight": self.weight}, {"step": step, "epochs_done": step})

    def epoch(self, step: int, *, value: float | None = None, after_s: float = 1.0, is_last: bool = False) -> None:
        """An epoch ends, with this value if it is told."""
        self.now += after_s
        self.weight.fill_(step)
        if value is not None:
            self.shelf.rank(Best(step, "val/top1", value), "higher")
        self.shelf.epoch_end(self.snapshot(step), is_last=is_last)

    def saved(self) -> list[int]:
        return [event.meta["step"] for event in self.sink.events if isinstance(event, ArtifactMade)]

    def dropped(self) -> list[str]:
        return [event.name for event in self.sink.events if isinstance(event, ArtifactDropped)]

    def announced_best(self) -> list[int]:
        return [event.step for event in self.sink.events if isinstance(event, CheckpointBest)]

    def on_disk(self) -> set[str]:
        return {path.stem for path in self.job.checkpoints_dir.iterdir()}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_first_epoch_is_saved_and_announced_as_the_best(bench):
    bench.epoch(10, value=50.0)
    assert bench.saved() == [10]
    assert bench.sink.events[-1] == CheckpointBest(step=10, series="val/top1", value=50.0, artifact="step-10")


def test_short_epochs_are_saved_every_five_seconds_and_at_the_end(bench):
    bench.epoch(1, value=50.0)
    for step in range(2, 14):
        bench.epoch(step)
    bench.epoch(14, is_last=True)
    assert bench.saved() == [1, 6, 11, 14]


def test_a_best_that_comes_too_soon_is_written_with_the_next_save_as_it_was(bench):
    bench.epoch(1, value=50.0)
    bench.epoch(2, value=60.0, after_s=0.5)
    bench.epoch(3, after_s=0.5)
    assert bench.saved() == [1]
    assert not bench.shelf.due(3)
    bench.now += 1.0
    assert bench.shelf.due(3)
    bench.weight.fill_(4)
    bench.shelf.save(bench.snapshot(4))
    assert bench.saved() == [1, 2, 4]
    assert bench.announced_best() == [1, 2]
    weights = [read_checkpoint(bench.job.checkpoints_dir / f"step-{step}.pt")["weight"][0].item() for step in (2, 4)]
    assert weights == [2.0, 4.0]


def test_a_best_that_is_surpassed_before_it_was_written_is_never_written(bench):
    bench.epoch(1, value=50.0)
    bench.epoch(2, value=60.0, after_s=0.5)
    bench.epoch(3, value=70.0, after_s=0.5)
    bench.epoch(4, after_s=0.5, is_last=True)
    assert bench.saved() == [1, 3, 4]
    assert bench.announced_best() == [1, 3]


def test_the_best_on_disk_outlives_a_better_one_that_waits_in_memory(bench):
    bench.epoch(1, value=50.0)
    bench.epoch(2, after_s=5)
    bench.epoch(3, value=60.0, after_s=1)
    bench.shelf.rank(Best(99, "val/top1", 70.0), "higher")
    bench.shelf.save(bench.snapshot(4))
    assert "step-3" in bench.on_disk()


def test_the_best_and_the_newest_two_are_kept(bench):
    bench.epoch(1, value=50.0, after_s=9)
    bench.epoch(2, value=90.0, after_s=9)
    for step in range(3, 8):
        bench.epoch(step, after_s=9)
    assert bench.saved() == [1, 2, 3, 4, 5, 6, 7]
    assert bench.dropped() == ["step-1", "step-3", "step-4", "step-5"]
    assert bench.on_disk() == {"step-2", "step-6", "step-7"}


def test_an_old_one_goes_only_after_the_new_one_is_announced(bench):
    for step in range(1, 5):
        bench.epoch(step, after_s=9)
    kinds = [(event.kind, getattr(event, "name", "")) for event in bench.sink.events]
    assert kinds.index(("artifact.made", "step-3")) < kinds.index(("artifact.dropped", "step-1"))


def test_events_are_durable_before_a_checkpoint_is_written(bench, monkeypatch):
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "engine.train.shelf.write_durable",
        lambda *_, **__: seen.append((bench.sink.synced_seq, bench.sink.last_seq)) or pytest.skip.Exception,
    )
    bench.sink.emit(CheckpointBest(step=0, series="x", value=0, artifact="x"))
    with pytest.raises(AttributeError):
        bench.epoch(1, value=1.0)
    assert seen == [(1, 1)]


def test_long_epochs_are_saved_about_every_minute(bench):
    bench.epoch(10, value=50.0)
    bench.now += 59
    assert not bench.shelf.due(20)
    bench.now += 1
    assert bench.shelf.due(21)


def test_slow_saves_are_made_less_often(bench, monkeypatch):
    from engine.train import shelf as module

    real = module.write_durable

    def slow(*arguments, **options):
        bench.now += 4.0
        return real(*arguments, **options)

    monkeypatch.setattr(module, "write_durable", slow)
    bench.epoch(10, value=50.0)
    bench.now += 120
    assert not bench.shelf.due(20)
    bench.now += 12
    assert bench.shelf.due(20)


def test_a_stated_interval_is_kept_exactly(tmp_path):
    bench = Bench(tmp_path, checkpoint_every=5)
    assert [step for step in range(1, 16) if bench.shelf.due(step)] == [5, 10, 15]
    bench.epoch(4, after_s=0.1)
    bench.epoch(10, after_s=0.1)
    assert bench.saved() == [4, 10]


def test_the_same_step_is_not_written_twice(bench):
    bench.epoch(3, value=50.0)
    bench.shelf.save(bench.snapshot(3))
    assert bench.saved() == [3]


@pytest.fixture
def of_three(tmp_path: Path) -> Bench:
    return Bench(tmp_path, keep_best=3)


def test_so_many_of_the_best_are_kept_as_the_option_asks(of_three):
    values = [10, 40, 20, 50, 30, 45, 0, 0]
    for step, value in enumerate(values, start=1):
        of_three.epoch(step, value=value, after_s=9)
    assert [(best.step, best.value) for best in of_three.shelf.ranking] == [(4, 50), (6, 45), (2, 40)]
    assert of_three.on_disk() == {"step-2", "step-4", "step-6", "step-7", "step-8"}
    assert of_three.announced_best() == [1, 2, 4]


def test_of_equal_ones_the_earlier_is_the_better(of_three):
    for step in range(1, 6):
        of_three.epoch(step, value=50.0, after_s=9)
    assert [best.step for best in of_three.shelf.ranking] == [1, 2, 3]
    assert of_three.announced_best() == [1]


def test_what_is_not_a_number_is_among_the_best_of_nothing(of_three):
    of_three.epoch(1, value=math.nan, after_s=9)
    assert of_three.shelf.ranking == ()
    of_three.shelf.rank(Best(1, "val/loss", 0.5), "lower")
    of_three.shelf.rank(Best(2, "val/loss", 0.2), "lower")
    assert of_three.shelf.best == Best(2, "val/loss", 0.2)


def test_no_more_than_one_waits_in_memory(of_three):
    of_three.epoch(1, value=50.0)
    of_three.epoch(2, value=70.0, after_s=0.1)
    assert of_three.saved() == [1]
    of_three.epoch(3, value=60.0, after_s=0.1)
    assert of_three.saved() == [1, 2, 3]
    of_three.epoch(4, value=10.0, after_s=0.1)
    assert of_three.saved() == [1, 2, 3]
    assert of_three.announced_best() == [1, 2]
    for step in (2, 3):
        weight = read_checkpoint(of_three.job.checkpoints_dir / f"step-{step}.pt")["weight"]
        assert weight[0].item() == step
