from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from jobs import selectors, transitions
from jobs.devices import DeviceWatch
from jobs.models import Artifact, Attempt, Device, DeviceLease, Job
from jobs.states import Status
from jobs.storage import storage
from wire.errors import SpecInvalid
from wire.events import Envelope, Notice

pytestmark = pytest.mark.django_db


def training(owner, title, *, model="lenet5", status=Status.RUNNING, dataset=1, **columns):
    spec = {
        "verb": "train", "dataset": f"../{dataset}/artifacts/dataset",
        "model": {"name": model, "options": {}}, "options": {"epochs": 4},
    }  # fmt: skip
    return transitions.begin(status=status, verb="train", spec=spec, title=title, owner=owner, **columns)


def dataset(owner, title="digits"):
    job = transitions.begin(status=Status.SUCCEEDED, verb="import", spec={"verb": "import"}, title=title, owner=owner)
    Artifact.objects.create(
        made_by=job, kind="dataset", name="dataset", path="p", sha256="a" * 64, bytes=1, meta={"n_images": 5}
    )
    return job


def test_a_running_training(user, other_user):
    source = dataset(user)
    now = timezone.now()
    job = training(
        user, "first", dataset=source.pk, stage="train", done=25, total=40, started_at=now, best_series="val/top1",
        best_value=0.9, best_step=20,
    )  # fmt: skip
    attempt = Attempt.objects.create(
        job=job, n=1, fence=1, host="h", from_step=5, total_steps=40, steps_per_epoch=10, devices=["GPU 0 (Test)"]
    )
    Attempt.objects.filter(pk=attempt.pk).update(started_at=now - timedelta(seconds=40))
    summary = selectors.job_summary(job, user)
    assert (summary.progress, summary.epoch, summary.epochs) == (0.625, 3, 4)
    assert summary.eta_s == pytest.approx(30, abs=2)
    assert summary.dataset == selectors.JobRef(id=source.pk, title="digits")
    assert (summary.model, summary.owner, summary.devices) == ("lenet5", "ada", ["GPU 0 (Test)"])
    assert summary.model_label.startswith("LeNet")
    assert (summary.best.series, summary.best.value, summary.best.step) == ("val/top1", 0.9, 20)
    assert (summary.can_change, summary.error, summary.n_attempts) == (True, None, 1)
    assert selectors.job_summary(job, other_user).can_change is False
    assert selectors.job_summary(job).can_change is False
    json.loads(summary.model_dump_json())


def test_ended_waiting_and_failed(user):
    ended = training(user, "done", status=Status.SUCCEEDED, done=40, total=40)
    Attempt.objects.create(job=ended, n=1, fence=1, host="h", total_steps=40, steps_per_epoch=10)
    summary = selectors.job_summary(ended, user)
    assert (summary.progress, summary.epoch, summary.eta_s) == (1.0, 4, None)
    failed = training(user, "bad", status=Status.FAILED, error_code="x.y", error_message="m", error_hint="h")
    summary = selectors.job_summary(failed, user)
    assert summary.error == selectors.JobError(code="x.y", message="m", hint="h")
    assert (summary.progress, summary.epoch, summary.duration_s, summary.devices) == (None, None, None, [])


def test_pauses_are_no_time_at_work(user):
    began = timezone.now() - timedelta(days=3)
    spans = {"paused for days": (60, 60), "in one go": (180,), "short": (30,)}
    for title, lasted in spans.items():
        job = training(user, title, status=Status.SUCCEEDED, started_at=began, ended_at=timezone.now())
        for n, seconds in enumerate(lasted, start=1):
            starts = began + timedelta(days=n - 1)
            ends = starts + timedelta(seconds=seconds)
            Attempt.objects.create(job=job, n=n, fence=n, host="h", ended_at=ends)
            Attempt.objects.filter(job=job, n=n).update(started_at=starts)
    training(user, "not begun", status=Status.QUEUED)
    found = selectors.runs_of(user, sort="-duration")
    assert [(summary.title, summary.duration_s) for summary in found] == [
        ("in one go", 180.0),
        ("paused for days", 120.0),
        ("short", 30.0),
        ("not begun", None),
    ]


def test_the_queries_of_a_list_do_not_grow(user, django_assert_num_queries):
    source = dataset(user)
    for n in range(2):
        training(user, f"run {n}", dataset=source.pk)
    with django_assert_num_queries(4):
        selectors.runs_of(user)
    for n in range(20):
        job = training(user, f"more {n}", dataset=source.pk)
        Attempt.objects.create(job=job, n=1, fence=1, host="h")
    with django_assert_num_queries(4):
        assert len(selectors.runs_of(user)) == 22
    with django_assert_num_queries(3):
        assert selectors.datasets_of(user)[0].dataset_meta == {"n_images": 5}


def test_search_filter_and_sort(user, other_user):
    alpha = training(user, "Alpha", model="resnet20", best_value=0.5, disk_bytes=7)
    beta = training(other_user, "beta", status=Status.FAILED, best_value=0.9, notes="with grey images")
    gamma = training(user, "gamma", status=Status.QUEUED)

    def titles(**filters):
        return [summary.title for summary in selectors.runs_of(user, **filters)]

    assert titles() == ["gamma", "beta", "Alpha"]
    assert titles(q="ALPHA") == ["Alpha"]
    assert titles(q="resnet ada") == ["Alpha"]
    assert titles(q="grey") == ["beta"]
    assert titles(q=f"#{beta.pk}") == ["beta"]
    assert titles(q="99999999999999999999999") == []
    assert titles(status="failed,queued") == ["gamma", "beta"]
    assert titles(status="active") == ["gamma", "Alpha"]
    assert titles(sort="best") == ["Alpha", "beta", "gamma"]
    assert titles(sort="-best") == ["beta", "Alpha", "gamma"]
    assert titles(sort="-disk")[0] == "Alpha"
    assert titles(sort="duration") == titles(sort="-created")
    assert [summary.title for summary in selectors.jobs_of(user, limit=1)] == ["gamma"]
    for filters in ({"sort": "owner__password"}, {"status": "sleeping"}):
        with pytest.raises(SpecInvalid):
            selectors.runs_of(user, **filters)
    assert {alpha.pk, beta.pk, gamma.pk} == {summary.id for summary in selectors.jobs_of(user, verb="train")}


def test_search_by_what_the_page_shows(user):
    source = dataset(user, "Swiss birds")
    training(user, "grey", model="lenet5", status=Status.WAITING, dataset=source.pk)
    training(user, "colour", model="resnet20", dataset=source.pk + 1)

    def titles(q):
        return [summary.title for summary in selectors.runs_of(user, q=q)]

    assert titles("swiss BIRDS") == ["grey"]
    assert titles("lenet-5") == ["grey"]
    assert titles("resnet-20") == ["colour"]
    assert titles("resnet-20 birds") == []


def test_sort_by_the_device_of_the_latest_attempt(user):
    devices = {"moved": (["GPU 0"], ["GPU 2"]), "stayed": (["GPU 1"],), "an import": ([],), "new": ()}
    for title, held in devices.items():
        job = training(user, title)
        for n, names in enumerate(held, 1):
            Attempt.objects.create(job=job, n=n, fence=n, host="h", devices=names, ended_at=timezone.now())
    assert [summary.title for summary in selectors.runs_of(user, sort="device")][:2] == ["stayed", "moved"]
    assert [summary.title for summary in selectors.runs_of(user, sort="-device")][:2] == ["moved", "stayed"]


def test_every_sort_key_works(user):
    training(user, "one")
    for key in selectors.SORTS:
        assert len(selectors.runs_of(user, sort=key)) == len(selectors.runs_of(user, sort=f"-{key}")) == 1


def test_another_s_private_run_is_in_no_list(user, other_user):
    training(other_user, "secret", private=True)
    assert selectors.runs_of(user) == []
    assert len(selectors.runs_of(other_user)) == 1


@pytest.fixture
def written(make_job):
    """A job with ten events of which eight are recorded."""
    job = make_job(status=Status.RUNNING)
    folder = storage().job(job.pk)
    folder.attempt(1).path.mkdir(parents=True)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    events = [Envelope(seq=n, at=at, event=Notice(level="info", code="c", text=f"n{n}")) for n in range(1, 11)]
    folder.events_path.write_text("".join(event.model_dump_json() + "\n" for event in events))
    Job.objects.filter(pk=job.pk).update(last_seq=8)
    job.refresh_from_db()
    return job


def test_events_after_a_seq_as_they_were_written(written):
    def found(*place):
        return [envelope["seq"] for envelope in json.loads(selectors.events_after(written, *place))]

    assert found(0) == list(range(1, 9))
    assert found(5) == [6, 7, 8]
    assert found(2, 3) == [3, 4, 5]
    assert found(8) == found(100) == []
    assert Envelope.model_validate(json.loads(selectors.events_after(written, 7))[0]).event.text == "n8"


def test_a_job_without_a_file_has_no_events(make_job):
    assert selectors.events_after(make_job(), 0) == b"[]"


def test_logs_are_read_by_range(written):
    log = storage().job(written.pk).attempt(1).log_path
    assert selectors.log_read(written).text == ""
    log.write_text("".join(f"line {n} é\n" for n in range(1000)))
    size = log.stat().st_size
    whole = selectors.log_read(written, offset=0)
    assert (whole.attempt, whole.offset, whole.end, whole.size) == (1, 0, size, size)
    tail = selectors.log_read(written, tail_bytes=50)
    assert tail.text.startswith("line ")
    assert whole.text.endswith(tail.text)
    assert 20 < len(tail.text) <= 50
    with log.open("a") as file:
        file.write("more\n")
    assert selectors.log_read(written, offset=tail.end).text == "more\n"
    assert selectors.log_read(written, offset=10**9).text == ""
    assert selectors.log_read(written, attempt=7).text == ""
    storage().job(written.pk).attempt(2).path.mkdir()
    assert selectors.log_read(written).attempt == 2


def test_notices_and_timeline(written):
    written.events.create(seq=3, at=timezone.now(), kind="notice", body={"level": "warning", "code": "a", "text": "t"})
    assert [(notice.seq, notice.level, notice.text) for notice in selectors.notices_of(written)] == [
        (3, "warning", "t")
    ]
    assert [(step.before, step.after) for step in selectors.timeline_of(written)] == [("", "running")]


def test_artifacts_in_the_trash_are_not_listed(user):
    job = dataset(user)
    assert [info.name for info in selectors.artifacts_of(job)] == ["dataset"]
    Artifact.objects.update(trashed_at=timezone.now())
    assert selectors.artifacts_of(job) == []


def test_devices_that_are_gone_are_not_listed():
    now = timezone.now()
    for uuid, host, kind, age_s in (("cpu:a:0", "a", "cpu", 0), ("GPU-1", "a", "cuda", 2), ("GPU-2", "a", "cuda", 300),
                                    ("cpu:b:0", "b", "cpu", 300)):  # fmt: skip
        Device.objects.create(uuid=uuid, host=host, kind=kind, name=uuid, seen_at=now - timedelta(seconds=age_s))
    assert [device.uuid for device in selectors.devices_list()] == ["GPU-1", "cpu:a:0"]
    # The agent pauses: what was there a moment before is there still.
    Device.objects.update(seen_at=now - timedelta(hours=1))
    assert len(selectors.devices_list()) == 4


def test_devices_with_who_uses_them(user, other_user, django_assert_num_queries):
    DeviceWatch().look()
    now = timezone.now()
    gpu = Device.objects.create(uuid="GPU-1", host="h", kind="cuda", name="GPU 0", seen_at=now, power_w=70.5)
    job = training(other_user, "secret", private=True)
    attempt = Attempt.objects.create(job=job, n=1, fence=1, host="h")
    DeviceLease.objects.create(device=gpu, attempt=attempt, expires_at=now)
    with django_assert_num_queries(1):
        devices = {device.uuid: device for device in selectors.devices_list(user)}
    cpu = next(device for device in devices.values() if device.kind == "cpu")
    assert (cpu.leased_by, cpu.memory_bytes > cpu.memory_used_bytes > 0) == (None, True)
    assert devices["GPU-1"].leased_by == selectors.JobRef(id=job.pk, title="a private run")
    by_owner = {device.uuid: device.leased_by for device in selectors.devices_list(other_user)}
    assert by_owner["GPU-1"].title == "secret"
