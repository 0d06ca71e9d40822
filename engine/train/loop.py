"""The training loop. All that varies is handed in; all that happens is on this page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from engine.data.loader import Batch
from engine.stop import Stop
from engine.tasks.task import Task
from engine.train.guard import FiniteGuard
from engine.train.optim import set_learning_rate
from engine.train.precision import Precision
from engine.train.report import Report
from engine.train.shelf import Best, Shelf, Snapshot


class Batches(Protocol):
    """A split in batches; the same epoch gives the same batches, from whichever of them it begins."""

    @property
    def n_batches(self) -> int: ...

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What stays the same from the first step to the last."""

    network: nn.Module
    task: Task
    optimiser: Optimizer
    precision: Precision
    learning_rate: Callable[[int], float]
    train: Batches
    val: Batches | None
    epochs: int
    log_every: int
    main_series: str
    """What the best checkpoint is chosen by, and in which direction."""
    main_better: Literal["lower", "higher"]

    @property
    def total_steps(self) -> int:
        return self.epochs * self.train.n_batches


@dataclass(slots=True)
class Position:
    """Where a training stands."""

    step: int = 0
    """Optimiser steps done."""
    epochs_done: int = 0
    """Epochs that are trained and validated: behind ``step`` while the last one waits for its validation."""
    window_sums: Tensor | None = None
    """The task's totals since the last log point."""
    epoch_sums: Tensor | None = None


def train(
    run: Run,
    at: Position,
    *,
    guard: FiniteGuard,
    report: Report,
    shelf: Shelf,
    snapshot: Callable[[dict[str, float]], Snapshot],
    stop: Stop,
) -> bool:
    """Train from ``at`` to the end, or until a stop is asked for; either way the last state is on the shelf.

    Args:
        run: what is trained, with what, on what.
        at: changed in place, so that others can see how far it is.
        guard: is shown every loss.
        report: is told every step.
        shelf: takes checkpoints, and knows when the next is due.
        snapshot: takes the present state; given the metrics that are known of it.
        stop: is looked at after every step.

    Returns:
        Whether all epochs are done.

    Raises:
        LossNotFinite: at the first loss that is not.
    """
    while at.epochs_done < run.epochs:
        run.network.train()
        report.epoch_began()
        epoch_end = (at.epochs_done + 1) * run.train.n_batches
        for batch in run.train.epoch(at.epochs_done, start=at.step - at.epochs_done * run.train.n_batches):
            rate = run.learning_rate(at.step)
            set_learning_rate(run.optimiser, rate)
            with run.precision.autocast():
                outputs_BK = run.network(batch.images_BCHW)
                loss = run.task.loss(outputs_BK, batch.labels_B)
            at.step += 1
            guard.look(loss, at.step)
            run.precision.step(loss, run.optimiser)
            _add(at, run.task.sums(outputs_BK, batch.labels_B, loss))
            report.step(at.step, n_images=len(batch.labels_B), wait_s=batch.wait_s)
            if at.step % run.log_every == 0 or at.step == run.total_steps:
                guard.settle()
                report.window(at.step, _values(run.task, at.window_sums), rate=rate)
                at.window_sums = None
            if stop.asked:
                break
            # The end of an epoch saves after its validation: a checkpoint before it would have the curve's point twice.
            if at.step < epoch_end and shelf.due(at.step):
                guard.settle()
                shelf.save(snapshot({}))
                report.resumed()
        guard.settle()
        values = None if stop.asked else evaluate(run, stop)
        if values is None:
            shelf.save(snapshot({}))
            return False
        report.validated(at.step, values)
        train_values = _values(run.task, at.epoch_sums)
        report.epoch(at.epochs_done + 1, train_values, values, rate=run.learning_rate(at.step - 1))
        at.epochs_done, at.epoch_sums = at.epochs_done + 1, None
        named = _named("train", train_values) | _named("val", values)
        shelf.best = _better(shelf.best, run, at.step, named)
        shelf.epoch_end(snapshot(named), is_last=at.epochs_done == run.epochs)
    return True


@torch.inference_mode()
def evaluate(run: Run, stop: Stop) -> dict[str, float] | None:
    """The metrics over all validation images; empty where there are none, None where a stop was asked for."""
    if run.val is None:
        return {}
    run.network.eval()
    sums: Tensor | None = None
    for batch in run.val.epoch(0):
        if stop.asked:
            return None
        with run.precision.autocast():
            outputs_BK = run.network(batch.images_BCHW)
            loss = run.task.loss(outputs_BK, batch.labels_B)
        added = run.task.sums(outputs_BK, batch.labels_B, loss)
        sums = added if sums is None else sums + added
    return _values(run.task, sums)


def _add(at: Position, sums: Tensor) -> None:
    at.window_sums = sums if at.window_sums is None else at.window_sums + sums
    at.epoch_sums = sums if at.epoch_sums is None else at.epoch_sums + sums


def _values(task: Task, sums: Tensor | None) -> dict[str, float]:
    return {} if sums is None else task.values(sums.tolist())


def _named(split: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in values.items()}


def _better(best: Best | None, run: Run, step: int, values: dict[str, float]) -> Best | None:
    value = values[run.main_series]
    if math.isnan(value):  # no better than anything
        return best
    if best is None or best.improved_by(value, run.main_better):
        return Best(step, run.main_series, value)
    return best
