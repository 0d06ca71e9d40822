"""The training loop. All that varies is handed in; all that happens is on this page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from engine.data.loader import Batch
from engine.stop import Stop
from engine.tasks.task import Task
from engine.train.ema import Average
from engine.train.guard import FiniteGuard
from engine.train.memory import Memory, Part
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
    average: Average | None
    """Where there is one, it is what is validated and kept for use."""
    task: Task
    optimiser: Optimizer
    precision: Precision
    memory: Memory
    learning_rate: Callable[[int], float]
    train: Batches
    val: Batches | None
    epochs: int
    log_every: int
    main_series: str
    """What the best checkpoint is chosen by, and in which direction."""
    main_better: Literal["lower", "higher"]
    early_stopping_epochs: int
    """0 to train to the end."""

    @property
    def evaluated(self) -> nn.Module:
        return self.average.network if self.average else self.network

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
    peak: float | None = None
    """The best value of the main series so far, whatever became of its checkpoint."""
    n_stale_epochs: int = 0
    """Epochs since then."""


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
        OutOfMemory: the device's memory does not hold a part of a batch either.
    """
    while not is_over(run, at):
        run.network.train()
        report.epoch_began()
        epoch_end = (at.epochs_done + 1) * run.train.n_batches
        for batch in run.train.epoch(at.epochs_done, start=at.step - at.epochs_done * run.train.n_batches):
            rate = run.learning_rate(at.step)
            set_learning_rate(run.optimiser, rate)
            loss, sums = run.memory.fit(partial(_learn, run), batch, step=at.step + 1)
            at.step += 1
            guard.look(loss, at.step)
            run.precision.step(run.optimiser)
            if run.average:
                run.average.update()
            _add(at, sums)
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
        values = None if stop.asked else evaluate(run, at, report, stop)
        if values is None:
            shelf.save(snapshot({}))
            return False
        _close_epoch(run, at, values, report, shelf, snapshot)
    return True


def _close_epoch(
    run: Run,
    at: Position,
    values: dict[str, float],
    report: Report,
    shelf: Shelf,
    snapshot: Callable[[dict[str, float]], Snapshot],
) -> None:
    """Tell what the epoch brought, rank it, and save if it is time."""
    report.validated(at.step, values)
    train_values = _values(run.task, at.epoch_sums)
    report.epoch(at.epochs_done + 1, train_values, values, rate=run.learning_rate(at.step - 1))
    at.epochs_done, at.epoch_sums = at.epochs_done + 1, None
    named = _named("train", train_values) | _named("val", values)
    _follow(at, run, named[run.main_series])
    shelf.rank(Best(at.step, run.main_series, named[run.main_series]), run.main_better)
    if is_over(run, at) and at.epochs_done < run.epochs:
        if at.window_sums is not None:
            report.window(at.step, _values(run.task, at.window_sums), rate=run.learning_rate(at.step - 1))
            at.window_sums = None
        report.ended_early(at.epochs_done, run.main_series, at.n_stale_epochs)
    shelf.epoch_end(snapshot(named), is_last=is_over(run, at))


def is_over(run: Run, at: Position) -> bool:
    """Whether all epochs are done, or the last ones brought nothing."""
    has_stalled = 0 < run.early_stopping_epochs <= at.n_stale_epochs
    return at.epochs_done >= run.epochs or has_stalled


def _learn(run: Run, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
    """The gradients of a batch, given in one part or several; its loss, and the task's totals."""
    run.optimiser.zero_grad(set_to_none=True)
    losses, sums = [], []
    for part in parts:
        with run.precision.autocast():
            outputs_BK = run.network(part.images_BCHW)
            loss = run.task.loss(outputs_BK, part.labels_B)
        sums.append(run.task.sums(outputs_BK, part.labels_B, loss))
        # The mean over the batch is the sum of the parts' means, each by its share of the images.
        weighted = loss if part.share == 1 else loss * part.share
        run.precision.backward(weighted)
        losses.append(weighted.detach())
    return _total(losses), _total(sums)


@torch.inference_mode()
def evaluate(run: Run, at: Position, report: Report, stop: Stop) -> dict[str, float] | None:
    """The metrics over all validation images; empty where there are none, None where a stop was asked for."""
    if run.val is None:
        return {}
    run.evaluated.eval()
    sums: Tensor | None = None
    for batch in run.val.epoch(0):
        if stop.asked:
            return None
        report.validating(at.step)
        added = run.memory.fit(partial(_judge, run), batch, step=at.step)
        sums = added if sums is None else sums + added
    return _values(run.task, sums)


def _judge(run: Run, parts: Sequence[Part]) -> Tensor:
    """The task's totals over a batch of validation images."""
    sums = []
    for part in parts:
        with run.precision.autocast():
            outputs_BK = run.evaluated(part.images_BCHW)
            loss = run.task.loss(outputs_BK, part.labels_B)
        sums.append(run.task.sums(outputs_BK, part.labels_B, loss))
    return _total(sums)


def _total(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def _add(at: Position, sums: Tensor) -> None:
    at.window_sums = sums if at.window_sums is None else at.window_sums + sums
    at.epoch_sums = sums if at.epoch_sums is None else at.epoch_sums + sums


def _values(task: Task, sums: Tensor | None) -> dict[str, float]:
    return {} if sums is None else task.values(sums.tolist())


def _named(split: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in values.items()}


def _follow(at: Position, run: Run, value: float) -> None:
    """Count the epochs since the main series was at its best."""
    has_risen = at.peak is None or (value > at.peak if run.main_better == "higher" else value < at.peak)
    if has_risen and not math.isnan(value):
        at.peak, at.n_stale_epochs = value, 0
    else:
        at.n_stale_epochs += 1
