"""A training whose process was killed, at whatever moment, is the training that never was."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.kits.mortal import KILLED, Moment, Mortals
from tests.kits.training import curves, envelopes, events, kept_checkpoints, last_checkpoint, new_job, same
from tests.kits.trees import class_tree, imported
from wire.events import ArtifactMade, AttemptStarted, Notice
from wire.layout import JobDir
from wire.specs import ExitReport

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {
    "epochs": 6,
    "augmentation": "strong",
    "learning_rate": 3e-3,
    "log_every": 2,
    "ema_decay": 0.9,
    "keep_best": 3,
    "early_stopping_epochs": 5,
    "checkpoint_every": 4,
}
MOMENTS = st.one_of(
    st.builds(Moment, st.just("step"), st.integers(1, 30)),
    st.builds(Moment, st.just("line"), st.integers(2, 40)),
    st.builds(Moment, st.just("bytes"), st.integers(1, 200)),
    st.builds(Moment, st.sampled_from(["fsync", "synced"]), st.integers(1, 30)),
    st.builds(Moment, st.sampled_from(["rename", "renamed"]), st.integers(1, 8)),
)


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with Mortals() as mortals:
        yield mortals


@pytest.fixture(scope="module")
def unbroken(mortals: Mortals, tmp_path_factory: pytest.TempPathFactory) -> JobDir:
    """37 images to train on, so that the last batch of an epoch is a smaller one, and 10 to validate on."""
    folder = tmp_path_factory.mktemp("killed")
    dataset = imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)
    job = new_job(folder / "unbroken", dataset, **OPTIONS)
    assert mortals.train(job) == 0
    assert len(curves(job)["train/loss"]) == 15
    return job


def _dataset(unbroken: JobDir) -> Path:
    return JobDir(unbroken.path.parent / "job").dataset_dir


@settings(max_examples=6, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(moments=st.lists(MOMENTS, min_size=2, max_size=4))
@example(moments=[Moment(place, n) for place in ("bytes", "fsync", "synced", "rename", "renamed") for n in (2,)])
def test_kills_at_any_moments_change_nothing(moments, mortals, unbroken):
    """Real processes, killed without warning between two steps, inside a line, a write, an fsync or a rename."""
    job = new_job(unbroken.path.parent / uuid.uuid4().hex, _dataset(unbroken), **OPTIONS)
    ended = [mortals.train(job, moment) for moment in moments]
    assert set(ended) <= {0, KILLED}
    assert mortals.train(job) == 0
    report = ExitReport.model_validate_json(job.attempt(len(moments) + 1).exit_path.read_bytes())
    assert report.outcome == "succeeded"

    assert curves(job) == curves(unbroken)
    first, second = last_checkpoint(job), last_checkpoint(unbroken)
    assert first.keys() == second.keys() >= {"network", "trained", "optimiser", "generators", "ranking", "peak"}
    assert same(first, second)
    assert [envelope.seq for envelope in envelopes(job)] == list(range(1, len(envelopes(job)) + 1))

    saved = {made.meta["step"] for made in events(job, ArtifactMade)}
    starts = events(job, AttemptStarted)
    assert all(start.from_step in saved | {0} for start in starts)
    assert {made.name for made in kept_checkpoints(job)} == {path.stem for path in job.checkpoints_dir.iterdir()}
    assert not job.scratch_dir.exists()
    told = [notice.code for notice in events(job, Notice) if notice.code.startswith("resume.")]
    # An attempt may also have died between the two lines.
    assert set(told) <= {"resume.exact"}
    assert len(told) <= sum(0 < start.from_step < 30 for start in starts)
    if 0 < starts[-1].from_step < 30:
        assert told
