"""What a run that goes on says about itself, and what it refuses to go on from."""

from __future__ import annotations

import errno
import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import pytest
import torch

from engine.checkpoint import _HashingFile, write_durable
from engine.faults import as_fovea_error
from engine.train.shelf import find_checkpoints
from engine.train.state import Facts, unordered
from tests.kits.training import curves, events, kept_checkpoints, last_checkpoint, new_job, same, train_once
from tests.kits.trees import class_tree, imported
from wire.errors import DiskFull, NoCheckpointIntact
from wire.events import ArtifactDropped, AttemptStarted, Notice, Progress
from wire.layout import JobDir
from wire.specs import Choice, TrainOptions, TrainSpec

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"epochs": 3, "log_every": 2, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    return imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)


@pytest.fixture(scope="module")
def unbroken(dataset: Path) -> JobDir:
    job = new_job(dataset.parents[2] / "unbroken", dataset, **OPTIONS)
    assert train_once(job) == "succeeded"
    return job


@pytest.fixture
def stopped(dataset: Path, unbroken: JobDir, tmp_path: Path) -> JobDir:
    """At step 4, with two checkpoints."""
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS, checkpoint_every=2)
    assert train_once(job, stop_at_look=4) == "cancelled"
    assert [made.name for made in kept_checkpoints(job)] == ["step-2", "step-4"]
    return job


def _resumed(job: JobDir) -> Notice:
    (told,) = (notice for notice in events(job, Notice) if notice.code.startswith("resume."))
    return told


def test_an_exact_continuation_says_so(stopped):
    assert train_once(stopped) == "succeeded"
    told = _resumed(stopped)
    assert (told.level, told.code) == ("info", "resume.exact")
    assert told.text == "Resumed exactly at step 4: the numbers are those of a run that was never stopped."


def test_without_any_intact_checkpoint_a_person_decides(stopped, unbroken):
    intact = {path: path.read_bytes() for path in stopped.checkpoints_dir.iterdir()}
    for path in intact:
        path.write_bytes(b"")
    for _ in range(2):  # as often as it is tried
        with pytest.raises(NoCheckpointIntact, match="step-2, step-4") as raised:
            train_once(stopped)
        assert "step 0" in raised.value.hint
    assert {path: path.read_bytes() for path in stopped.checkpoints_dir.iterdir()} == dict.fromkeys(intact, b"")
    assert events(stopped, ArtifactDropped) == []
    assert [event.from_step for event in events(stopped, AttemptStarted)] == [0]
    # The files are put back from a backup.
    for path, content in intact.items():
        path.write_bytes(content)
    assert train_once(stopped) == "succeeded"
    assert [event.from_step for event in events(stopped, AttemptStarted)] == [0, 4]
    assert curves(stopped) == curves(unbroken)


def test_what_was_lost_altogether_is_as_bad_as_what_cannot_be_read(stopped):
    for path in stopped.checkpoints_dir.iterdir():
        path.unlink()
    with pytest.raises(NoCheckpointIntact):
        train_once(stopped)


def test_a_lost_event_log_is_no_reason_to_begin_from_zero(stopped):
    before = {path: path.read_bytes() for path in stopped.checkpoints_dir.iterdir()}
    whole = stopped.events_path.read_bytes().splitlines(keepends=True)
    for left in (b"", whole[0]):
        stopped.events_path.write_bytes(left)
        with pytest.raises(NoCheckpointIntact, match=r"events were lost.*step-2, step-4"):
            find_checkpoints(stopped)
    assert {path: path.read_bytes() for path in stopped.checkpoints_dir.iterdir()} == before
    # A kill between the rename and the announcement of the first checkpoint leaves one, of an attempt that began.
    (stopped.checkpoints_dir / "step-4.pt").unlink()
    stopped.events_path.write_bytes(b"")
    with pytest.raises(NoCheckpointIntact, match="step-2"):
        find_checkpoints(stopped)
    stopped.events_path.write_bytes(whole[0])
    assert find_checkpoints(stopped).payload is None
    assert list(stopped.checkpoints_dir.iterdir()) == []


def test_what_the_disk_does_not_give_back_is_asked_for_again_and_never_removed(stopped, monkeypatch):
    path = stopped.checkpoints_dir / "step-4.pt"
    content, n_asked = path.read_bytes(), 0

    def fail(asked: Path, *, times: int) -> str:
        nonlocal n_asked
        n_asked += asked == path
        if asked == path and n_asked <= times:
            raise OSError(errno.EIO, "Input/output error")
        return hashlib.sha256(asked.read_bytes()).hexdigest()

    monkeypatch.setattr("engine.checkpoint._READ_AGAIN_AFTER_S", 0.0)
    monkeypatch.setattr("engine.checkpoint._digest_of", partial(fail, times=1))
    found = find_checkpoints(stopped)
    assert (found.payload or {})["step"] == 4
    assert not found.events
    n_asked = 0
    monkeypatch.setattr("engine.checkpoint._digest_of", partial(fail, times=2))
    found = find_checkpoints(stopped)
    assert (found.payload or {})["step"] == 2
    assert [event.kind for event in found.events] == ["notice", "artifact.dropped"]
    find_checkpoints(stopped)
    assert path.with_suffix(".damaged").read_bytes() == content


def test_a_validation_says_that_it_goes_on_and_no_step_twice(dataset, unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.train.report._VALIDATING_INTERVAL_S", 0.0)
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS)
    assert train_once(job) == "succeeded"
    told = [event.done for event in events(job, Progress) if event.stage == "train"]
    assert told == sorted(told)
    # Two batches of it after each of three epochs.
    assert [told.count(step) for step in (5, 10)] >= [2, 2]
    assert told.count(15) == 3
    assert curves(job) == curves(unbroken)


def test_a_disk_that_does_not_take_a_checkpoint_leaves_the_last_one(stopped, unbroken, monkeypatch):
    n_taken = 0

    def refuse(file: Any, data: bytes) -> int:
        nonlocal n_taken
        n_taken += 1
        if n_taken > 200:
            file.write(bytes(data)[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(file.write(data))

    class Full(_HashingFile):
        def __init__(self, file: Any) -> None:
            super().__init__(cast(BinaryIO, SimpleNamespace(write=partial(refuse, file), tell=file.tell)))

        def flush(self) -> None:
            pass

    monkeypatch.setattr("engine.checkpoint._HashingFile", Full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        train_once(stopped)
    monkeypatch.undo()
    error = as_fovea_error(raised.value)
    assert type(error) is DiskFull
    assert "step-5.pt" in error.message
    assert list(stopped.scratch_dir.iterdir()) == []
    on_disk = {path.stem for path in stopped.checkpoints_dir.iterdir()}
    assert on_disk == {made.name for made in kept_checkpoints(stopped)} >= {"step-4"}
    assert train_once(stopped) == "succeeded"
    assert curves(stopped) == curves(unbroken)


def _as_of_an_earlier_version(job: JobDir) -> None:
    """The newest checkpoint, without what later versions added to it."""
    made, payload = kept_checkpoints(job)[-1], last_checkpoint(job)
    payload["best"] = payload["ranking"][0] if payload["ranking"] else None
    for name in ("trained", "n_averaged", "peak", "n_stale_epochs", "ranking", "n_halvings", "operations", "machine"):
        del payload[name]
    written = write_durable(payload, job.resolve(made.path), scratch_dir=job.scratch_dir)
    job.events_path.write_text(job.events_path.read_text().replace(made.sha256, written.sha256))


def test_a_checkpoint_of_an_earlier_version_is_continued(dataset, unbroken, tmp_path):
    job = new_job(unbroken.path.parent / tmp_path.name, dataset, **OPTIONS)
    assert train_once(job, stop_at_look=12) == "cancelled"
    _as_of_an_earlier_version(job)
    assert train_once(job) == "succeeded"
    assert curves(job) == curves(unbroken)
    assert same(last_checkpoint(job), last_checkpoint(unbroken))
    assert "an earlier version" in _resumed(job).text


def test_options_that_change_nothing_leave_the_digest_as_it_was():
    """A run that was begun by an earlier version, and none of whose options is new, is the same run."""
    spec = TrainSpec(dataset="d", model=Choice(name="lenet5"), options=TrainOptions(epochs=3))
    known = "epochs batch_size image_px resize colour augmentation optimiser learning_rate momentum weight_decay"
    known += " schedule warmup_pct precision seed"
    before = {
        "samples": "s",
        "task": spec.task.model_dump(),
        "model": spec.model.model_dump(),
        "init": spec.init.model_dump(),
        "options": {name: getattr(spec.options, name) for name in known.split()},
    }
    facts = Facts(
        spec=spec, classes=(), mean=(), std=(), samples_sha256="s", n_parameters=0, n_threads=1, precision="fp32",
        machine={},
    )  # fmt: skip
    assert facts.digest == hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()
    averaged = spec.model_copy(update={"options": spec.options.model_copy(update={"ema_decay": 0.9})})
    assert replace(facts, spec=averaged).digest != facts.digest


def test_another_machine_is_told(stopped, monkeypatch):
    monkeypatch.setattr("engine.device._of_cpu", lambda _: "model name : Abacus 2")
    assert train_once(stopped) == "succeeded"
    told = _resumed(stopped)
    assert (told.level, told.code) == ("warning", "resume.not_exact")
    assert "with Abacus 2 (" in told.text


def test_what_has_no_fixed_order_on_a_gpu_is_told(unbroken):
    payload, gpu = last_checkpoint(unbroken), torch.device("cuda")
    spec = TrainSpec.model_validate_json(unbroken.spec_path.read_bytes())
    exact = spec.model_copy(update={"options": spec.options.model_copy(update={"deterministic": True})})
    facts: Any = SimpleNamespace(spec=spec)
    exact_facts: Any = SimpleNamespace(spec=exact)
    assert unordered(payload, facts, torch.device("cpu")) == []
    assert "Deterministic" in unordered(payload, facts, gpu)[0]
    assert unordered(payload, exact_facts, gpu) == []
    assert "index_add_cuda" in unordered({**payload, "operations": ["index_add_cuda"]}, exact_facts, gpu)[0]
