"""The engine's own training loop in one process, for benchmarks that put something of theirs around its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from engine.context import Context
from engine.emit import JsonlSink, Sink
from engine.importing import pipeline
from engine.stop import Stop
from engine.store.reader import DatasetReader
from engine.train import state
from engine.train.guard import FiniteGuard
from engine.train.loop import Batches, Position, Run, train
from engine.train.report import Report
from engine.train.shelf import Shelf, Snapshot, find_checkpoints
from engine.train.verb import make_plan, prepare
from wire.layout import JobDir
from wire.specs import Choice, FromSample, ImportSpec, TrainOptions, TrainSpec


def context_in(folder: Path) -> Context:
    """Of the first attempt of a job in a new folder."""
    job = JobDir(folder)
    attempt = job.attempt(1)
    attempt.path.mkdir(parents=True)
    job.scratch_dir.mkdir()
    return Context(job, attempt, 1, JsonlSink(job.events_path), Stop(attempt), folder.parent / "cache", None)


def import_digits(folder: Path) -> None:
    """The handwritten digits, into ``folder``."""
    pipeline.run(ImportSpec(name="Handwritten digits", source=FromSample(name="digits")), context_in(folder))


def on_digits(model: str) -> TrainSpec:
    """Training on what ``import_digits`` put into the folder ``1`` beside the job's, until it is stopped."""
    options = TrainOptions(epochs=10_000, colour="grey", augmentation="shift", learning_rate=2e-3)
    return TrainSpec(dataset="../1/artifacts/dataset", model=Choice(name=model), options=options, device="cpu")


class RealLoop:
    """A training on the processor, prepared as ``engine.train.verb`` prepares it."""

    def __init__(self, spec: TrainSpec, context: Context) -> None:
        self._context = context
        self.at = Position()
        with DatasetReader(context.job.resolve(spec.dataset)) as reader:
            self._plan = make_plan(spec, reader.manifest)
            self._run, self._facts, _ = prepare(self._plan, find_checkpoints(context.job), reader, context)

    @property
    def batches(self) -> Batches:
        return self._run.train

    @property
    def validation(self) -> Batches | None:
        return self._run.val

    def train(
        self,
        batches: Batches,
        validation: Batches | None,
        *,
        sink: Sink | None = None,
        shelf: Callable[..., Shelf] = Shelf,
    ) -> None:
        """Until the context's stop is asked for.

        Args:
            batches: in place of its own.
            validation: likewise.
            sink: in place of the context's.
            shelf: makes the shelf of its checkpoints.
        """
        sink = sink or self._context.sink
        run = replace(self._run, train=batches, val=validation)
        kept = shelf(self._context.job, sink, kept={}, announced_best=None, checkpoint_every=0)
        train(
            run,
            self.at,
            guard=FiniteGuard(
                sink,
                device=torch.device("cpu"),
                reads_at_once=True,
                learning_rate=run.learning_rate,
                steps_per_epoch=run.train.n_batches,
                precision="fp32",
                optimiser=self._plan.spec.options.optimiser,
            ),
            report=Report(sink, self._plan.task.metrics, epochs=run.epochs, total_steps=run.total_steps),
            shelf=kept,
            snapshot=lambda metrics: self._snapshot(run, kept, metrics),
            stop=self._context.stop,
        )

    def _snapshot(self, run: Run, shelf: Shelf, metrics: dict[str, float]) -> Snapshot:
        return state.take(run, self.at, state.Beside(ranking=shelf.ranking, operations=()), self._facts, metrics)
