"""Evaluations and classifications by a network that was trained for the test, and what they wrote down."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import sklearn  # noqa: F401 - sets variables of the environment: not inside a test
import torch
from PIL import Image

from engine.__main__ import VERBS
from engine.context import Context
from engine.emit import JsonlSink
from tests.kits.training import StopAtLook, kept_checkpoints, new_job, train_once
from tests.kits.trees import imported
from wire.events import Outcome
from wire.layout import JobDir, Storage
from wire.specs import SPEC, AnySpec, CheckpointRef, ClassifySpec, EvaluateSpec, Source

IMPORT, TRAINING = 1, 2


@dataclass(frozen=True, slots=True)
class Trained:
    """A data directory with an import (job 1) and a training on it (job 2)."""

    storage: Storage
    tree: Path
    checkpoint: CheckpointRef
    metrics: dict[str, float]

    @property
    def dataset(self) -> Path:
        return self.storage.job(IMPORT).dataset_dir

    def new_job(self, spec: AnySpec) -> JobDir:
        job = self.storage.job(
            1 + max(int(path.name) for path in self.storage.jobs_dir.iterdir() if path.name.isdecimal())
        )
        job.path.mkdir()
        job.spec_path.write_text(spec.model_dump_json())
        return job

    def evaluation(self, **changes: Any) -> JobDir:
        dataset = self.storage.input_path(IMPORT, "artifacts/dataset")
        return self.new_job(
            EvaluateSpec(**{"checkpoint": self.checkpoint, "dataset": dataset, "device": "cpu", **changes})
        )

    def classification(self, source: Source, **changes: Any) -> JobDir:
        return self.new_job(ClassifySpec(**{"checkpoint": self.checkpoint, "source": source, **changes}))


def shaded_tree(root: Path, classes: dict[str, int]) -> Path:
    """Images of one grey each, classes of overlapping shades: to be told apart often, and not always."""
    draw = np.random.default_rng(0)
    for place, (name, count) in enumerate(sorted(classes.items())):
        (root / name).mkdir(parents=True)
        for index, shade in enumerate(draw.normal(60 + 60 * place, 30, count).clip(0, 255)):
            Image.new("L", (40, 30), int(shade)).save(root / name / f"{index}.png")
    return root


def trained(root: Path, tree: Path, *, epochs: int = 3, val_pct: float = 40, **options: Any) -> Trained:
    """A small network on the images of a tree."""
    storage = Storage(root)
    dataset = imported(tree, storage.job(IMPORT).path, val_pct=val_pct, test_pct=options.pop("test_pct", 0))
    job = new_job(storage.job(TRAINING).path, dataset, epochs=epochs, learning_rate=3e-3, **options)
    assert train_once(job) == "succeeded"
    made = kept_checkpoints(job)[-1]
    checkpoint = CheckpointRef(
        path=storage.input_path(TRAINING, made.path),
        sha256=made.sha256,
        name=made.name,
        step=made.meta["step"],
        epoch=made.meta["epoch"],
        chosen="The last one.",
    )
    return Trained(storage, tree, checkpoint, made.meta["metrics"])


def run_once(job: JobDir, *, stop_at_look: int | None = None) -> Outcome:
    """One attempt inside the test's process, without ``run.ended``, which is not the verb's to say."""
    n = job.latest_attempt() + 1
    attempt = job.attempt(n)
    attempt.path.mkdir(parents=True)
    sink = JsonlSink(job.events_path)
    context = Context(job, attempt, n, sink, StopAtLook(attempt, stop_at_look), job.path.parent / "cache", None)
    spec = SPEC.validate_json(job.spec_path.read_bytes())
    module, _, function = VERBS[spec.verb].partition(":")
    n_threads = torch.get_num_threads()
    try:
        outcome: Outcome = getattr(import_module(module), function)(spec, context)
        return outcome
    finally:
        torch.set_num_threads(n_threads)
        sink.close()


def start(job: JobDir, **environment: str) -> subprocess.Popen[str]:
    """As from a shell, with nothing but the folder."""
    verb = SPEC.validate_json(job.spec_path.read_bytes()).verb
    return subprocess.Popen(
        [sys.executable, "-m", "engine", verb, "--dir", str(job.path)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
