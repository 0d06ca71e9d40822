"""Power that fails, specs of the version before, and datasets that vanish: what is on disk decides."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections

from jobs import services, transitions
from jobs.backup import copy_sqlite, sqlite_path
from jobs.models import Artifact, Job, JobInput
from jobs.rebuild import bring_back_missing
from jobs.states import Status
from jobs.storage import storage
from tests.faults.ledger import fault
from tests.faults.power import Disk, announced_in, traced
from tests.jobs.scripted_engine import value_at
from tests.kits.settling import settle
from tests.kits.trees import class_tree, imported
from tests.surroundings import until
from wire.layout import JobDir
from wire.specs import Choice, TrainOptions, TrainSpec

ENGINE = [sys.executable, "-m", "engine"]
PREVIOUS = Path(__file__).parent / "previous"

WRITE_FROM_THE_WEB = """
import sys
from pathlib import Path
import django
django.setup()
from jobs import records
from jobs.models import Job
from jobs.supervision.spec import write_spec
from wire.layout import JobDir
folder = JobDir(Path(sys.argv[1]))
for n in range(3):
    records._write(int(folder.path.name), b"{}" * (n + 1))
write_spec(Job(spec={"verb": "train"}), folder)
"""


# Power.


@pytest.mark.slow
@fault("25", how="simulated", inject="every write, sync and rename of a real import and training, as strace saw them")
def test_files_are_whole_or_absent_whenever_the_power_goes(tmp_path):
    """Worked out after each system call of both processes: no file is in its place before its bytes are on the disk,
    none is announced before its name is, and no checkpoint is ahead of its events."""
    tree = class_tree(tmp_path / "tree", {"cat": 24, "dog": 23})
    source = {"kind": "folder", "path": str(tree)}
    dataset = job_folder(tmp_path, 1, {"verb": "import", "name": "pets", "source": source})
    options = TrainOptions(epochs=3, batch_size=16, image_px=32, checkpoint_every=2)
    spec = TrainSpec(
        dataset="../1/artifacts/dataset", model=Choice(name="lenet5"), options=options, device="cpu"
    ).model_dump(mode="json")
    run = job_folder(tmp_path, 2, spec)

    for verb, job, at_least in (("import", dataset, 1), ("train", run, 4)):
        disk = Disk(job)
        disk.play(traced([*ENGINE, verb, "--dir", str(job.path), "--attempt", "1"], tmp_path / verb))
        assert len(disk.announced) >= at_least
        assert disk.announced == announced_in(job)
        # When the process ended, all that it said was safe.
        assert str(job.events_path) not in disk.unsynced


def job_folder(root, job_id, spec):
    job = JobDir(root / "jobs" / str(job_id))
    job.attempt(1).path.mkdir(parents=True)
    job.spec_path.write_text(json.dumps(spec))
    return job


EVENTS, PART, WHOLE, FOLDER = (
    f"/data/jobs/7/{name}" for name in ("events.jsonl", "scratch/a.pt", "artifacts/a.pt", "artifacts")
)
MADE = r'"{\"kind\":\"artifact.made\",\"path\":\"artifacts/a.pt\"}\n", 9, 0'
GOOD = [
    f'1 openat(AT_FDCWD, "{PART}", O_WRONLY|O_CREAT) = 5<{PART}>',
    f'1 write(5<{PART}>, "x", 1) = 1',
    f"1 fsync(5<{PART}>) = 0",
    f'1 rename("{PART}", "{WHOLE}") = 0',
    f"1 fsync(6<{FOLDER}>) = 0",
    f"1 pwrite64(3<{EVENTS}>, {MADE}) = 9",
]


@pytest.mark.parametrize(
    ("left_out", "said"),
    [(None, ""), (2, "cut short"), (4, "would be announced, and"), ("unsynced events", "ahead of its events")],
)
def test_the_model_of_a_power_cut_sees_what_is_not_safe(left_out, said):
    calls = [call for n, call in enumerate(GOOD) if n != left_out]
    if left_out == "unsynced events":
        calls.insert(0, f'2 pwrite64(3<{EVENTS}>, "{{}}", 2, 0) = 2')
    disk = Disk(JobDir(Path("/data/jobs/7")))
    if said:
        with pytest.raises(AssertionError, match=said):
            disk.play(calls)
    else:
        disk.play(calls)
        assert (disk.announced, disk.unsynced, disk.unnamed) == (["artifacts/a.pt"], {EVENTS}, set())


@fault("25", how="simulated", inject="as strace saw the writing of record.json and spec.json")
def test_records_and_specs_are_whole_or_absent_whenever_the_power_goes(tmp_path):
    """Worked out after each system call: neither file is ever in its place with less than all of its bytes."""
    job = storage().job(7)
    job.path.mkdir(parents=True)

    disk = Disk(job)
    disk.play(traced([sys.executable, "-c", WRITE_FROM_THE_WEB, str(job.path)], tmp_path / "trace"))

    assert disk.n_renamed == 4
    assert job.record_path.read_bytes() == b"{}{}{}"


@fault("25", how="simulated", inject="all processes killed, and SQLite put back to what it was a moment before")
def test_a_database_that_is_older_than_the_files_catches_up(scene):
    """Of a job that went on all events are recorded, once each, and it ends as if nothing had been; one that was
    submitted in the moment that is lost is brought back, and no other gets its number."""
    went_on = scene.submit(steps=60, step_s=0.05, checkpoint_every=5)
    scene.turn()
    scene.until_step(went_on, 8)
    copy = Path(settings.DATA_DIR) / "earlier.sqlite3"
    copy_sqlite(sqlite_path(), copy)
    submitted = scene.submit(steps=3)
    scene.until_step(went_on, 20)
    scene.kill_supervisor(went_on)
    scene.kill_engine(went_on)
    until(lambda: not list(scene.processes()))

    replace_database(copy)
    assert not Job.objects.filter(pk=submitted.pk).exists()
    assert Job.objects.get(pk=went_on.pk).last_seq < len(scene.events(went_on))
    report = bring_back_missing()
    other = scene.submit(steps=3)

    assert (report.n_jobs, other.pk) == (1, submitted.pk + 1)
    scene.finish(went_on, submitted, other)
    scene.check(went_on, submitted, other)
    _, resumed = scene.attempts(went_on)
    assert resumed.from_step >= 15
    loss = {step["step"]: step["values"]["train/loss"] for step in scalars(scene, went_on)}
    assert loss == {step: None if step == 7 else value_at(step) for step in range(1, 61)}


def scalars(scene, job):
    return [one["event"] for one in scene.events(job) if one["event"]["kind"] == "scalars"]


def replace_database(copy):
    """With the log of SQLite, in which the newest transactions are."""
    target = sqlite_path()
    assert connection.vendor == "sqlite"
    connections.close_all()
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    copy.replace(target)


# The version before.


@pytest.mark.slow
@fault("A5", how="real", inject="specs of every verb as the version before wrote them, done by the real engine")
def test_specs_of_the_version_before_run_and_can_be_read(api, user, redis_server, plain_static_names):
    """Import, training, evaluation, classification and export succeed; every page of theirs opens, and the form to
    train again is filled from the old spec."""
    dataset = settle(begin(user, "import"))
    assert dataset.status == Status.SUCCEEDED, dataset.error_message
    wish = begin(user, "train", dataset=dataset)
    run = settle(wish)
    assert run.status == Status.SUCCEEDED, run.error_message
    Job.objects.exclude(pk__in=[dataset.pk, run.pk]).delete()  # the evaluation that this version adds
    for verb in ("evaluate", "classify", "export"):
        job = settle(begin(user, verb, dataset=dataset, run=run))
        assert job.status == Status.SUCCEEDED, (verb, job.error_message)
    parts = {job.verb: job.pk for job in Job.objects.filter(part_of=run)}
    for page in (
        "/",
        f"/datasets/{dataset.pk}/",
        f"/datasets/new/?again={dataset.pk}",
        f"/runs/{run.pk}/",
        f"/runs/new?again={run.pk}",
        f"/runs/{run.pk}/evaluation/",
        f"/runs/{run.pk}/export/",
        f"/classifications/{parts['classify']}/",
    ):
        assert api.get(page).status_code == 200, page
    form = api.get(f"/runs/new?again={run.pk}").content.decode()
    assert 'value="256"' in form
    again = services.job_retry(user, run.pk)
    kept = {name: value for name, value in wish.spec["options"].items() if again.spec["options"][name] != value}
    assert kept == {}


def begin(user, verb, *, dataset=None, run=None):
    """A job as it lay in the queue when the version before was stopped."""
    text = (PREVIOUS / f"{verb}.json").read_text()
    made = []
    if dataset is not None:
        text = text.replace("../1/", f"../{dataset.pk}/")
        made.append(("dataset", Artifact.objects.get(made_by=dataset, kind="dataset")))
    if run is not None:
        checkpoint = Artifact.objects.filter(made_by=run, kind="checkpoint", trashed_at=None).latest("pk")
        made.append(("checkpoint", checkpoint))
        text = text.replace("../2/", f"../{run.pk}/").replace("SHA256", checkpoint.sha256)
        text = text.replace("CHECKPOINT", checkpoint.name)
    job = transitions.begin(
        status=Status.QUEUED, verb=verb, spec=json.loads(text), title=verb, owner=user, part_of=run, wants=["cpu"]
    )
    for role, artifact in made:
        JobInput.objects.create(job=job, artifact=artifact, role=role)
    return job


# Datasets that vanish.


@pytest.fixture
def submit(scene, user, monkeypatch, tmp_path):
    """A training of the real engine on images that were imported into this installation."""
    monkeypatch.setenv("FOVEA_TEST_ENGINE", os.pathsep.join(ENGINE))

    def make(**options):
        source = transitions.begin(status=Status.SUCCEEDED, verb="import", spec={}, title="pets", owner=user)
        imported(class_tree(tmp_path / "tree", {"cat": 24, "dog": 23}), storage().job(source.pk).path, val_pct=21)
        Artifact.objects.create(
            made_by=source, kind="dataset", name="dataset", path="artifacts/dataset", sha256="a" * 64, bytes=9,
            meta={"counts": {"train": 37, "val": 10}, "classes": ["cat", "dog"], "n_classes": 2, "n_images": 47},
        )  # fmt: skip
        spec = TrainSpec(
            dataset=f"../{source.pk}/artifacts/dataset",
            model=Choice(name="lenet5"),
            options=TrainOptions(**{"batch_size": 8, "image_px": 32, "checkpoint_every": 3, **options}),
            device="cpu",
        )
        job = transitions.begin(
            status=Status.QUEUED, verb="train", spec=spec.model_dump(mode="json"), title="run", owner=user,
            wants=["cpu"],
        )  # fmt: skip
        JobInput.objects.create(job=job, artifact=source.artifacts.get(), role="dataset")
        return job, storage().job(source.pk).dataset_dir

    return make


def until_trained(job, step):
    until(lambda: Job.objects.filter(pk=job.pk, stage="train", done__gte=step).exists())


@pytest.mark.slow
@fault("A6", how="real", inject="the dataset's folder removed while the training goes on; later SIGKILL to the trainer")
def test_a_dataset_that_is_gone_is_named_by_whoever_reads_it_anew(scene, submit):
    """The trainer has its images already and goes on; the attempt after it fails at once with dataset.missing and names
    the folder: no other follows, nothing hangs, nothing is left."""
    job, dataset = submit(epochs=1000)
    scene.turn()
    until_trained(job, 4)
    shutil.rmtree(dataset)
    until_trained(job, Job.objects.get(pk=job.pk).done + 20)
    scene.kill_engine(job)
    scene.finish(job)
    scene.check(job, status=Status.FAILED)
    assert job.error_code == "dataset.missing"
    assert str(dataset) in job.error_message
    assert "import the images again" in job.error_hint
    assert len(scene.attempts(job)) == 2
