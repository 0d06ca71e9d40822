"""A training that was stopped or killed, and continued, is the training that never was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kits.training import (
    curves,
    envelopes,
    events,
    kept_checkpoints,
    last_checkpoint,
    new_job,
    same,
    train_once,
)
from tests.kits.trees import class_tree, imported
from wire.errors import SpecInvalid
from wire.events import ArtifactDropped, AttemptStarted, CheckpointBest, Notice
from wire.layout import JobDir

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"epochs": 3, "augmentation": "shift", "log_every": 2, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """37 images to train on, so that the last batch of an epoch is a smaller one, and 10 to validate on."""
    folder = tmp_path_factory.mktemp("dataset")
    return imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)


@pytest.fixture(scope="module")
def unbroken(dataset: Path) -> JobDir:
    job = new_job(dataset.parents[2] / "unbroken", dataset, **OPTIONS)
    assert train_once(job) == "succeeded"
    return job


def _assert_equal(job: JobDir, unbroken: JobDir) -> None:
    assert curves(job) == curves(unbroken)
    first, second = last_checkpoint(job), last_checkpoint(unbroken)
    assert same({**first, "digest": ""}, {**second, "digest": ""})
    assert [envelope.seq for envelope in envelopes(job)] == list(range(1, len(envelopes(job)) + 1))


# An epoch has five steps, a look before the validation, and two batches of it.
@pytest.mark.parametrize("look", [1, 4, 5, 6, 7, 8, 9, 11, 24])
def test_a_stop_at_any_moment_changes_nothing(look, dataset, unbroken, tmp_path):
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS)
    assert train_once(job, stop_at_look=look) == "cancelled"
    assert train_once(job) == "succeeded"
    _assert_equal(job, unbroken)
    epoch, within = divmod(look - 1, 8)
    stopped_at = epoch * 5 + min(within + 1, 5)
    assert [(start.n, start.from_step) for start in events(job, AttemptStarted)] == [(1, 0), (2, stopped_at)]
    assert f"step {stopped_at} of 15" in next(notice.text for notice in events(job, Notice))
    # Nothing is left to do, and nothing is done or told twice.
    assert train_once(job) == "succeeded"
    _assert_equal(job, unbroken)


def test_many_stops_change_nothing_either(dataset, unbroken):
    job = new_job(unbroken.path.parent / "stopped often", dataset, **OPTIONS)
    outcomes = ["cancelled"]
    for _ in range(20):
        outcomes.append(train_once(job, stop_at_look=4))
        if outcomes[-1] == "succeeded":
            break
    assert outcomes.count("cancelled") > 4
    assert outcomes[-1] == "succeeded"
    _assert_equal(job, unbroken)


def test_a_stop_while_images_are_decoded_begins_anew(dataset, unbroken, tmp_path):
    job = new_job(tmp_path / "job", dataset, **OPTIONS)
    assert train_once(job, stop_at_look=1) == "cancelled"
    assert kept_checkpoints(job) == []
    assert train_once(job) == "succeeded"
    _assert_equal(job, unbroken)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mobilenet_v3_small", {"optimiser": "nesterov", "learning_rate": 0.01, "augmentation": "strong"}),
        ("lenet5", {"precision": "fp16", "colour": "grey", "schedule": "one_cycle"}),
        ("resnet20", {"precision": "bf16", "image_px": 8, "optimiser": "sgd", "schedule": "step"}),
    ],
    ids=["dropout-and-norms", "fp16-scale", "bf16"],
)
def test_other_networks_and_precisions_resume_exactly_too(model, options, dataset, tmp_path):
    options = {**OPTIONS, "epochs": 2, "ema_decay": 0.8, **options}
    whole, broken = (new_job(tmp_path / name, dataset, model=model, **options) for name in ("whole", "broken"))
    assert train_once(whole) == "succeeded"  # and fills the cache
    assert train_once(broken, stop_at_look=3) == "cancelled"
    assert train_once(broken) == "succeeded"
    _assert_equal(broken, whole)


def test_a_finished_run_that_is_started_again_only_says_so(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, **OPTIONS)
    assert train_once(job) == "succeeded"
    before = kept_checkpoints(job)
    n_events = len(envelopes(job))
    assert train_once(job) == "succeeded"
    assert kept_checkpoints(job) == before
    kinds = {envelope.event.kind for envelope in envelopes(job)[n_events:]}
    assert kinds == {"attempt.started", "scalars"}


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(damage, dataset, unbroken, tmp_path):
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS, checkpoint_every=2)
    assert train_once(job, stop_at_look=11) == "cancelled"
    before, newest_made = kept_checkpoints(job)[-2:]
    newest = job.resolve(newest_made.path)
    content = newest.read_bytes()
    match damage:
        case "cut":
            newest.write_bytes(content[:-1000])
        case "flip":
            newest.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
        case _:
            newest.unlink()
    assert train_once(job) == "succeeded"
    assert events(job, AttemptStarted)[1].from_step == before.meta["step"]
    told = [notice for notice in events(job, Notice) if notice.level == "warning"]
    assert [notice.code for notice in told] == ["checkpoint.missing" if damage == "gone" else "checkpoint.damaged"]
    assert newest_made.name in {event.name for event in events(job, ArtifactDropped)}
    assert curves(job) == curves(unbroken)
    assert same(last_checkpoint(job)["network"], last_checkpoint(unbroken)["network"])


def test_files_that_no_event_announced_are_removed(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, **OPTIONS)
    assert train_once(job, stop_at_look=1) == "cancelled"
    job.checkpoints_dir.mkdir(parents=True)
    (job.checkpoints_dir / "step-999.pt").write_bytes(b"written, then killed")
    assert train_once(job) == "succeeded"
    on_disk = {path.name for path in job.checkpoints_dir.iterdir()}
    assert on_disk == {Path(made.path).name for made in kept_checkpoints(job)}


def test_a_best_that_could_not_be_announced_is_announced_by_the_next_attempt(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, **OPTIONS)
    assert train_once(job) == "succeeded"
    best = events(job, CheckpointBest)[-1]
    lines = job.events_path.read_bytes().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if f'"name":"{best.artifact}"'.encode() in line)
    job.events_path.write_bytes(b"".join(lines[: cut + 1]))
    for path in job.checkpoints_dir.iterdir():
        if path.stem not in {made.name for made in kept_checkpoints(job)}:
            path.unlink()
    assert train_once(job) == "succeeded"
    assert best in events(job, CheckpointBest)


@pytest.mark.parametrize("changes", [{"epochs": 9}, {"seed": 1}, {"augmentation": "none"}])
def test_a_changed_spec_is_not_continued(changes, dataset, unbroken, tmp_path):
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS)
    assert train_once(job, stop_at_look=4) == "cancelled"
    changed = new_job(tmp_path / "changed", dataset, **{**OPTIONS, **changes})
    changed.spec_path.rename(job.spec_path)
    with pytest.raises(SpecInvalid, match="has changed since the checkpoint of step 4"):
        train_once(job)


def test_another_number_of_threads_is_told(dataset, unbroken, tmp_path, monkeypatch):
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS)
    assert train_once(job, stop_at_look=4) == "cancelled"
    monkeypatch.setattr("engine.train.verb.n_physical_cores", lambda: 7)
    assert train_once(job) == "succeeded"
    told = next(notice for notice in events(job, Notice) if notice.code == "resume.not_exact")
    assert "7 threads instead of" in told.text
