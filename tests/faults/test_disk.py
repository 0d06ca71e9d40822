"""A full disk: what was there stays, what runs waits with its device given back, and what is new is refused in time."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from PIL import Image

from jobs import services
from jobs.models import Artifact, DeviceLease, Job
from jobs.requests import ImportRequest, TrainingRequest, UploadSource
from jobs.services import upload_begin
from jobs.states import ResumesWhen, Status
from jobs.storage import storage
from jobs.upload_files import UploadFile
from tests.dashboard.uploading import bring_all, session_headers
from tests.faults.disks import MIB, SmallDisk
from tests.faults.ledger import fault
from tests.surroundings import until
from wire.errors import DiskFull
from wire.specs import Choice, FromSample, TrainOptions


@pytest.fixture
def small_disk(tmp_path, settings, monkeypatch):
    """``DATA_DIR`` and ``CACHE_DIR`` on a disk of 48 MiB, for the test and for every process that it starts."""
    disk = SmallDisk(tmp_path / "disk", 48 * MIB)
    try:
        data_dir = disk.place / Path(settings.DATA_DIR).name
        data_dir.mkdir()
        (data_dir / "redis.sock").symlink_to(Path(settings.DATA_DIR) / "redis.sock")
        monkeypatch.setenv("FOVEA_TEST_ROOT", str(disk.place))
        monkeypatch.setenv("CACHE_DIR", str(data_dir / "cache"))
        settings.DATA_DIR = data_dir
        settings.CACHE_DIR = data_dir / "cache"
        yield disk
    finally:
        disk.remove()


@pytest.fixture
def real_engine(bench, monkeypatch):
    """In place of the scripted one that the scene brings."""
    monkeypatch.delenv("FOVEA_TEST_ENGINE")


def until_paused(scene, job):
    scene.until(lambda: scene.status(job) == Status.PAUSED)
    scene.rest()
    job.refresh_from_db()


def noisy_archive(n_images):
    """Images that no compression makes smaller."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(n_images):
            picture = io.BytesIO()
            Image.frombytes("RGB", (96, 96), os.urandom(96 * 96 * 3)).save(picture, "PNG")
            archive.writestr(f"{number % 2}/{number}.png", picture.getvalue())
    return packed.getvalue()


@fault("20", how="real", inject="tmpfs of 48 MiB, filled in the middle of an upload")
def test_a_disk_that_fills_up_during_an_upload(small_disk, client, user, plain_static_names):
    """507 that says how much is missing; what has arrived is kept; with room it goes on to the last byte."""
    client.force_login(user)
    headers, data = session_headers(client), os.urandom(4 * MIB)
    upload = upload_begin(user, "pets.zip", len(data))
    path = f"/api/v1/uploads/{upload.pk}"
    assert async_to_sync(bring_all)(path, headers, data[:MIB])[0] == 204
    small_disk.fill(leave_bytes=MIB // 2)
    status, _, body = async_to_sync(bring_all)(path, headers, data[MIB:], offset=MIB)
    assert (status, body["error"]["code"]) == (507, "disk.full")
    assert "are missing" in body["error"]["message"]
    assert client.get("/").status_code == 200
    arrived = int(client.head(path, headers={"Tus-Resumable": "1.0.0"}).headers["Upload-Offset"])
    assert arrived >= MIB
    small_disk.make_room()
    assert async_to_sync(bring_all)(path, headers, data[arrived:], offset=arrived)[0] == 204
    assert storage().upload_path(upload.pk).read_bytes() == data


@fault("21", how="real", inject="tmpfs of 48 MiB with 2 MiB left for a dataset of 10")
def test_a_disk_that_fills_up_during_an_import(small_disk, scene, real_engine, user):
    """The import ends with disk.full, no dataset is to be seen, the room is given back; started again it succeeds."""
    data = noisy_archive(400)
    upload = upload_begin(user, "pets.zip", len(data))
    file = UploadFile(upload.pk)
    file.append(data)
    file.close()
    job = services.import_submit(user, ImportRequest(name="pets", source=UploadSource(upload=upload.pk)))
    small_disk.fill(leave_bytes=2 * MIB)
    scene.finish(job)
    assert (job.status, job.error_code) == (Status.ERRORED, "disk.full"), scene.supervisor_output(job)
    assert not Artifact.objects.filter(made_by=job).exists()
    assert not scene.folder(job).dataset_dir.exists()
    assert small_disk.free_bytes > 1.5 * MIB
    scene.check(job, status=Status.ERRORED)
    with pytest.raises(DiskFull, match="are missing"):
        services.job_retry(user, job.pk)
    small_disk.make_room()
    again = services.job_retry(user, job.pk)
    assert again.retry_of_id == job.pk
    assert services.job_retry(user, job.pk).pk == again.pk
    scene.finish(again)
    scene.check(again)


@pytest.mark.slow
@fault("22", title="Disk full during a checkpoint, real trainer", how="real", inject="tmpfs of 48 MiB, filled")
def test_a_disk_that_fills_up_under_a_training(small_disk, scene, real_engine, user):
    """PAUSED, device free, what is missing is told, every checkpoint as it was written; with room it goes on there."""
    dataset = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    scene.finish(dataset)
    options = TrainOptions(epochs=40, image_px=32, colour="grey", checkpoint_every=20)
    wish = TrainingRequest(dataset=dataset.pk, model=Choice(name="lenet5"), options=options, devices=["cpu"])
    job = services.training_submit(user, wish)
    scene.until(lambda: Artifact.objects.filter(made_by=job, kind="checkpoint").exists())
    small_disk.fill(leave_bytes=MIB // 4)
    until_paused(scene, job)
    assert job.resumes_when == ResumesWhen.DISK, scene.supervisor_output(job)
    assert "are missing. It goes on by itself when there is room." in job.wait_reason
    assert job.error_code == ""
    assert not DeviceLease.objects.exists()
    intact = announced_as_written(job)
    scene.check(job, status=Status.PAUSED)
    with pytest.raises(DiskFull, match=r"to go on: .* are missing"):
        services.job_resume(user, job.pk)
    small_disk.make_room()
    scene.until(lambda: scene.status(job) != Status.PAUSED)
    scene.until(lambda: Job.objects.filter(pk=job.pk, attempts__n=2, attempts__started_seq__isnull=False).exists())
    assert scene.attempts(job)[1].from_step == max(intact)
    services.job_cancel(user, job.pk)
    scene.finish(job)
    scene.check(job, status=Status.CANCELLED)


def announced_as_written(job):
    """Steps of the checkpoints that the rows name, all of them whole."""
    steps = []
    for made in Artifact.objects.filter(made_by=job, kind="checkpoint", trashed_at=None):
        content = (storage().job(job.pk).path / made.path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == made.sha256
        steps.append(made.meta["step"])
    return steps


@fault("22", how="scripted", inject="ENOSPC in the middle of a save; the reserve raised, then lowered")
def test_a_full_disk_pauses_and_room_lets_it_go_on(scene, user, settings):
    """PAUSED until there is room, however often somebody looks; then one more attempt, from the checkpoint before."""
    job = scene.submit(steps=20, disk_full_at={"1": 10})
    settings.DISK_RESERVE_GIB = 0
    scene.start(job)
    until(lambda: scene.status(job) == Status.PAUSED)
    settings.DISK_RESERVE_GIB = 1e6
    for _ in range(3):
        scene.turn()
    job.refresh_from_db()
    assert (job.status, job.resumes_when) == (Status.PAUSED, ResumesWhen.DISK)
    assert "TB are missing" in job.wait_reason
    assert not DeviceLease.objects.exists()
    settings.DISK_RESERVE_GIB = 0
    scene.finish(job)
    scene.check(job)
    assert [attempt.from_step for attempt in scene.attempts(job)] == [0, 5]
    assert "there is room on the disk again" in job.transitions.values_list("reason", flat=True)
    assert (job.wait_reason, job.resumes_when) == ("", "")


@fault("22", title="Disk full while somebody cancels", how="scripted", inject="ENOSPC in the last save")
def test_a_full_disk_keeps_nobody_from_cancelling(scene, user):
    """CANCELLED, as asked; the reason says that the last checkpoint could not be saved."""
    job = scene.submit(steps=5000, step_s=0.2, checkpoint_every=9999, disk_full_at={"1": 3})
    scene.start(job)
    scene.until_step(job, 2)
    services.job_cancel(user, job.pk)
    scene.finish(job)
    scene.check(job, status=Status.CANCELLED)


@fault("24", how="simulated", inject="a reserve larger than the disk")
def test_little_room_starts_nothing_new(scene, user, settings):
    """What is queued waits and says how much is missing, what runs goes on; with room it starts."""
    running = scene.submit(steps=5000)
    scene.start(running)
    scene.until_step(running, 2)
    settings.DISK_RESERVE_GIB = 1e6
    queued = [scene.submit(steps=3), scene.submit(verb="import", steps=3)]
    scene.turn()
    for job in queued:
        job.refresh_from_db()
        assert job.status == Status.QUEUED
        assert job.wait_reason.startswith("Waiting for room on the disk: ")
        assert job.wait_reason.endswith("TB are missing")
    assert scene.status(running) == Status.RUNNING
    settings.DISK_RESERVE_GIB = 0
    services.job_cancel(user, running.pk)
    scene.finish(running, *queued)
    scene.check(*queued)
    scene.check(running, status=Status.CANCELLED)


@fault("24", title="Little room left: new wishes", how="simulated", inject="a reserve larger than the disk")
def test_little_room_refuses_new_wishes(api, user, trained, settings):
    """507 with words for every kind of job and for uploads, before a row or a file is made."""
    run = trained()
    dataset = run.inputs.get(role="dataset").artifact.made_by
    sample = {"kind": "sample", "name": "digits"}
    training = {"dataset": dataset.pk, "model": {"name": "lenet5"}}
    settings.DISK_RESERVE_GIB = 1e6
    n_jobs = Job.objects.count()
    for path, body in (
        ("trainings", training),
        ("datasets", {"name": "more", "source": sample}),
        ("classifications", {"run": run.pk, "source": sample}),
        (f"trainings/{run.pk}/evaluations", {}),
        (f"trainings/{run.pk}/exports", {"targets": [{"backend": {"name": "pytorch"}}]}),
        (f"jobs/{run.pk}/retry", {}),
        (f"jobs/{run.pk}/clone", {"options": {"epochs": 2}}),
    ):
        answer = api.post(f"/api/v1/{path}", body, content_type="application/json")
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk.full"), (path, answer.content)
        assert "are missing" in answer.json()["error"]["message"]
    with pytest.raises(DiskFull):
        upload_begin(user, "pets.zip", 10)
    assert Job.objects.count() == n_jobs
    settings.DISK_RESERVE_GIB = 0
    assert api.post("/api/v1/trainings", training, content_type="application/json").status_code == 201
