"""Faults of the trainer, with the real one: killed, its checkpoints damaged, out of memory, a loss that is no number.

Where many processes must die, they are forked from one that has loaded torch (``tests.kits.mortal``); where the
installation has to answer, the engine is the one of an installation, under a real supervisor.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint import read_checkpoint
from jobs import selectors, transitions
from jobs.models import Job
from jobs.states import Status
from tests.faults.ledger import fault
from tests.faults.scene import Scene
from tests.kits.mortal import KILLED, Moment, Mortals, Place
from tests.kits.training import curves, envelopes, events, kept_checkpoints, last_checkpoint, new_job, same
from tests.kits.trees import class_tree, imported
from tests.surroundings import until
from wire.events import ArtifactDropped, ArtifactMade, AttemptStarted, Notice, RunEnded, Scalars
from wire.layout import JobDir
from wire.specs import ExitReport, TrainSpec

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {
    "epochs": 12,
    "augmentation": "shift",
    "learning_rate": 3e-3,
    "log_every": 2,
    "checkpoint_every": 3,
    "ema_decay": 0.9,
    "keep_best": 2,
}
N_STEPS = 60


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with Mortals() as mortals:
        yield mortals


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trainer")


@pytest.fixture(scope="module")
def photos(folder: Path) -> Path:
    """37 images to train on, 10 to validate on; five steps an epoch."""
    return imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)


@pytest.fixture(scope="module")
def unbroken(mortals: Mortals, folder: Path, photos: Path) -> JobDir:
    """The run that nothing happened to."""
    job = new_job(folder / "unbroken", photos, **OPTIONS)
    assert mortals.train(job) == 0
    return job


@pytest.fixture
def broken(unbroken: JobDir, photos: Path, tmp_path: Path) -> JobDir:
    """The same run, to do things to."""
    return new_job(unbroken.path.parent / tmp_path.name, photos, **OPTIONS)


def assert_same_run(job: JobDir, unbroken: JobDir) -> None:
    """Curves point for point, the whole state of the last checkpoint bit for bit, events without gap or double."""
    assert curves(job) == curves(unbroken)
    assert same(last_checkpoint(job), last_checkpoint(unbroken))
    assert [one.seq for one in envelopes(job)] == list(range(1, len(envelopes(job)) + 1))


def codes(job: JobDir) -> list[str]:
    return [notice.code for notice in events(job, Notice)]


def exit_report(job: JobDir, n: int) -> ExitReport:
    return ExitReport.model_validate_json(job.attempt(n).exit_path.read_bytes())


# In an installation.


@pytest.fixture
def submit(real_engine, user):
    """A training with the real engine, under a real supervisor."""

    def make(unbroken: JobDir, **options: Any) -> Job:
        spec = TrainSpec.model_validate_json(unbroken.spec_path.read_bytes())
        spec = spec.model_copy(update={"options": spec.options.model_copy(update=options)})
        columns: dict[str, Any] = {"verb": "train", "spec": spec.model_dump(mode="json"), "wants": ["cpu"]}
        return transitions.begin(status=Status.QUEUED, owner=user, title="real", **columns)

    return make


def kill_at(scene: Scene, job: Job, step: int) -> None:
    """As soon as the trainer has written of that step: its whole run takes less than a second on a quick machine."""
    pid, events_path = scene.pid(job), scene.folder(job).events_path
    wanted = re.compile(rb'"kind":"scalars","step":(\d+)')

    def has_written() -> bool:
        written = events_path.read_bytes() if events_path.exists() else b""
        return any(int(found) >= step for found in wanted.findall(written))

    until(has_written)
    os.kill(pid, signal.SIGKILL)
    scene.until_status(job, Status.QUEUED)


@fault("1", how="real", inject="SIGKILL at a random step")
def test_a_killed_trainer_goes_on_as_if_nothing_had_been(scene, submit, unbroken, rng):
    """Back in the queue at once; resumed from the newest checkpoint; curves and weights are bit for bit those of a run
    that was not killed, and the run says "resumed exactly"."""
    job = submit(unbroken)
    scene.turn()
    kill_at(scene, job, rng.randrange(4, 30))
    scene.finish(job)
    scene.check(job)
    killed, resumed = scene.attempts(job)
    assert killed.signal == signal.SIGKILL
    folder = scene.folder(job)
    assert 0 < resumed.from_step < N_STEPS
    assert f"step-{resumed.from_step}" in {made.name for made in events(folder, ArtifactMade)}
    assert codes(folder) == ["resume.exact"]
    assert_same_run(folder, unbroken)
    shown = selectors.curves_read(job, max_points=100_000).series["train/loss"]
    assert list(zip(shown.step, shown.value, strict=True)) == curves(unbroken)["train/loss"]


@fault("27", how="real", inject="all files of checkpoints overwritten")
def test_without_an_intact_checkpoint_nobody_begins_anew_unasked(scene, submit, unbroken):
    """The job fails with what is wrong and what can be done; nothing is computed again; the files stay as evidence."""
    job = submit(unbroken)
    scene.turn()
    kill_at(scene, job, 8)
    folder = scene.folder(job)
    files = sorted(folder.checkpoints_dir.iterdir())
    assert len(files) >= 2
    for path in files:
        path.write_bytes(path.read_bytes()[:1000] + b"damage")
    damaged = {path: path.read_bytes() for path in files}
    scene.finish(job)
    scene.check(job, status=Status.FAILED)
    assert job.error_code == "checkpoint.none_intact"
    assert all(path.stem in job.error_message for path in files)
    assert job.error_hint
    assert len(scene.attempts(job)) == 2
    assert {path: path.read_bytes() for path in folder.checkpoints_dir.iterdir()} == damaged
    assert not {event.name for event in events(folder, ArtifactDropped)} & {path.stem for path in files}
    assert [start.n for start in events(folder, AttemptStarted)] == [1]


@fault("30", how="real", inject="a learning rate of 1e15")
def test_a_loss_that_is_no_number_ends_the_run_and_says_what_to_change(scene, submit, unbroken):
    """Failed at the first such step, never again tried; the files are valid JSON; the chart marks the place."""
    job = submit(unbroken, learning_rate=1e15)
    scene.turn()
    scene.finish(job)
    scene.check(job, status=Status.FAILED)
    assert job.error_code == "loss.not_finite"
    assert "Lower the learning rate" in job.error_hint
    assert len(scene.attempts(job)) == 1
    folder = scene.folder(job)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    for line in folder.events_path.read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    (marked,) = (event for event in events(folder, Scalars) if event.nonfinite)
    assert marked.values == {"train/loss": None}
    shown = selectors.curves_read(job, max_points=100_000).series["train/loss"]
    assert dict(zip(shown.step, shown.value, strict=True))[marked.step] is None
    assert f"at step {marked.step} " in job.error_message


# The engine alone.


@fault("2", how="real", inject="SIGKILL inside a write, and before and after each fsync and rename; 40 times")
def test_kills_while_it_saves_leave_the_checkpoint_before(mortals, broken, unbroken, rng):
    """After each of 40 kills every announced checkpoint is whole; what was half written is removed by the next attempt;
    in the end the run is bit for bit the one that was not killed."""
    places: list[Place] = ["bytes", "fsync", "synced", "rename", "renamed"]
    n_saved = 0
    for n in range(1, 41):
        place = places[n % len(places)]
        last = {"bytes": 60, "fsync": 6, "synced": 6, "rename": 2, "renamed": 2}[place]
        ended = mortals.train(broken, Moment(place, rng.randint(1, last)))
        # Near its end a run may succeed before it writes so often.
        assert ended in {KILLED, 0}, (broken.path / "log.txt").read_text()
        if ended == 0:
            assert exit_report(broken, n).outcome == "succeeded"
            break
        kept = kept_checkpoints(broken) if broken.events_path.exists() else []
        for made in kept:
            read_checkpoint(broken.resolve(made.path), sha256=made.sha256)
        newest = max((made.meta["step"] for made in kept), default=0)
        assert newest >= n_saved
        n_saved = newest
    assert mortals.train(broken) == 0
    assert not broken.scratch_dir.exists()
    assert {made.name for made in kept_checkpoints(broken)} == {path.stem for path in broken.checkpoints_dir.iterdir()}
    assert_same_run(broken, unbroken)


@fault("26", how="real", inject="truncated by 1,000 bytes; one bit flipped")
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(damage, mortals, broken, unbroken, rng):
    """Found by its hash; said on the run page; the run goes on from the one before and ends as if nothing had been."""
    assert mortals.train(broken, Moment("step", 20)) == KILLED
    before, newest = kept_checkpoints(broken)[-2:]
    path = broken.resolve(newest.path)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[-1000:]
    else:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    assert mortals.train(broken) == 0
    told = [notice for notice in events(broken, Notice) if notice.level == "warning"]
    assert [notice.code for notice in told] == ["checkpoint.damaged"]
    assert newest.name in told[0].text
    assert events(broken, AttemptStarted)[1].from_step == before.meta["step"]
    assert newest.name in {event.name for event in events(broken, ArtifactDropped)}
    assert_same_run(broken, unbroken)


@fault("28", how="simulated", inject="torch.OutOfMemoryError above two images at once")
def test_a_batch_that_does_not_fit_is_trained_in_parts(mortals, broken):
    """The same step is done again in parts, and the run says so; killed, it goes on in parts, exactly."""
    assert mortals.train(broken, Moment("step", 20), n_images_fit=2) == KILLED
    assert mortals.train(broken, n_images_fit=2) == 0
    assert codes(broken) == ["memory.micro_batch", "memory.micro_batch", "resume.exact"]
    assert "parts of 2" in events(broken, Notice)[1].text
    assert curves(broken)["train/loss"][-1][0] == N_STEPS


@fault("28", how="simulated", inject="torch.OutOfMemoryError above one image at once")
def test_a_device_too_small_for_an_eighth_fails_with_advice(mortals, photos, folder):
    """After three halvings the job fails, with a batch size to try; nothing is left over."""
    job = new_job(folder / "too large", photos, **{**OPTIONS, "batch_size": 16})
    assert mortals.train(job, n_images_fit=1) == 64
    report = exit_report(job, 1)
    assert (report.outcome, report.code) == ("failed", "device.out_of_memory")
    assert "2 images of 32 px" in report.message
    assert "batch size of 1 or less" in report.hint
    assert codes(job) == ["memory.micro_batch"] * 3
    assert events(job, RunEnded)[-1].code == "device.out_of_memory"
    assert not job.scratch_dir.exists()
