"""Whole trainings on a few images of noise, inside the test's process, and what they wrote down."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch._inductor.utils  # an optimiser imports it, and it sets a variable: not inside a test
from torch import Tensor

from engine.checkpoint import Payload, read_checkpoint
from engine.context import Context
from engine.emit import JsonlSink
from engine.stop import Stop
from engine.train.verb import run
from wire.events import ENVELOPE, ArtifactDropped, ArtifactMade, AttemptStarted, Envelope, Event, Outcome, Scalars
from wire.layout import AttemptDir, JobDir
from wire.specs import Choice, FromScratch, Init, TrainOptions, TrainSpec

Kind = TypeVar("Kind", bound=Event)

TIMED = ("time/", "cpu/", "ram/", "gpu")
"""Series whose values depend on the machine's mood."""


class StopAtLook(Stop):
    """Asked for as soon as the work looks for the n-th time: after a step, or inside a validation."""

    def __init__(self, attempt: AttemptDir, look: int | None) -> None:
        super().__init__(attempt)
        self._look = look
        self.n_looks = 0

    @property
    def asked(self) -> bool:
        self.n_looks += 1
        return self._look is not None and self.n_looks >= self._look


def new_job(
    folder: Path,
    dataset: Path,
    *,
    model: str = "lenet5",
    model_options: dict[str, Any] | None = None,
    task_options: dict[str, Any] | None = None,
    init: Init | None = None,
    **options: Any,
) -> JobDir:
    """A job that trains on ``dataset``; small and short where ``options`` say nothing."""
    folder.mkdir(parents=True)
    spec = TrainSpec(
        dataset=str(dataset),
        model=Choice(name=model, options=model_options or {}),
        task=Choice(name="classification", options=task_options or {}),
        init=init or FromScratch(),
        options=TrainOptions(**{"epochs": 2, "batch_size": 8, **options}),
        device="cpu",
    )
    job = JobDir(folder)
    job.spec_path.write_text(spec.model_dump_json())
    return job


def train_once(job: JobDir, *, stop_at_look: int | None = None, weights_dir: Path | None = None) -> Outcome:
    """One attempt, without ``run.ended``, which is not the verb's to say."""
    n = job.latest_attempt() + 1
    attempt = job.attempt(n)
    attempt.path.mkdir(parents=True)
    sink = JsonlSink(job.events_path)
    cache_dir = job.path.parent / "cache"
    context = Context(job, attempt, n, sink, StopAtLook(attempt, stop_at_look), cache_dir, weights_dir)
    n_threads = torch.get_num_threads()
    try:
        return run(TrainSpec.model_validate_json(job.spec_path.read_bytes()), context)
    finally:
        torch.set_num_threads(n_threads)
        sink.close()


def envelopes(job: JobDir) -> list[Envelope]:
    return [ENVELOPE.validate_json(line) for line in job.events_path.read_bytes().splitlines()]


def events(job: JobDir, kind: type[Kind]) -> list[Kind]:
    return [envelope.event for envelope in envelopes(job) if isinstance(envelope.event, kind)]


def curves(job: JobDir) -> dict[str, list[tuple[int, float | None]]]:
    """Points of the series that a training decides, in order, without those that a later attempt superseded."""
    points: dict[str, list[tuple[int, float | None]]] = defaultdict(list)
    for envelope in envelopes(job):
        match envelope.event:
            case AttemptStarted(from_step=from_step):
                for name, values_so_far in points.items():
                    points[name] = [point for point in values_so_far if point[0] <= from_step]
            case Scalars(step=step, values=values):
                for name, value in values.items():
                    if not name.startswith(TIMED):
                        points[name].append((step, value))
            case _:
                pass
    return dict(points)


def kept_checkpoints(job: JobDir) -> list[ArtifactMade]:
    """Announced and not dropped, the newest last."""
    kept: dict[str, ArtifactMade] = {}
    for envelope in envelopes(job):
        if isinstance(envelope.event, ArtifactMade):
            kept[envelope.event.name] = envelope.event
        elif isinstance(envelope.event, ArtifactDropped):
            kept.pop(envelope.event.name, None)
    return sorted(kept.values(), key=lambda made: (made.meta["step"], made.meta["epochs_done"]))


def last_checkpoint(job: JobDir) -> Payload:
    made = kept_checkpoints(job)[-1]
    return read_checkpoint(job.resolve(made.path), sha256=made.sha256)


def same(first: Any, second: Any) -> bool:
    """Bit for bit, through tables and lists."""
    if isinstance(first, Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))
    return bool(first == second)
