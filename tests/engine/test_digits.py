"""The bundled sample, with the choices that the form offers for it, learns what a first visitor is promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.training import curves, events, new_job, train_once
from wire.events import CheckpointBest
from wire.layout import JobDir
from wire.specs import FromSample, ImportSpec

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = JobDir(tmp_path_factory.mktemp("digits"))
    spec = ImportSpec(name="Digits", source=FromSample(name="digits"))
    job.spec_path.write_text(spec.model_dump_json())
    subprocess.run([sys.executable, "-m", "engine", "import", "--dir", str(job.path)], check=True)
    return job.dataset_dir


@pytest.mark.parametrize("seed", range(5))
def test_handwritten_digits_reach_97_percent(seed, digits):
    job = new_job(
        digits.parents[1] / f"seed {seed}", digits, epochs=15, batch_size=64, image_px=32, colour="grey",
        augmentation="shift", learning_rate=3e-3, seed=seed,
    )  # fmt: skip
    assert train_once(job) == "succeeded"
    best = events(job, CheckpointBest)[-1]
    assert best.series == "val/top1"
    assert best.value >= 97
    last = curves(job)["val/top1"][-1][1]
    assert last is not None
    assert last >= 97
