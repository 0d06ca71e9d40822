"""What the files know is what the database knew: it is emptied, and made anew from them."""

from __future__ import annotations

import fcntl
import json
import shutil

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import InterfaceError

from jobs import records, services, transitions
from jobs.dispatch import dispatch
from jobs.housekeeping import housekeep
from jobs.models import (
    Artifact,
    Attempt,
    Curve,
    Device,
    ExportOverride,
    Job,
    JobEvent,
    JobInput,
    Series,
    Submission,
    Transition,
    Upload,
)
from jobs.rebuild import bring_back_missing, n_missing, rebuild
from jobs.states import ENDED, Status
from jobs.storage import storage
from tests.surroundings import until
from wire.errors import ActionRefused
from wire.layout import JobDir

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = {
    Job: "pk",
    Attempt: "pk",
    Transition: "pk",
    Artifact: "pk",
    JobInput: "pk",
    ExportOverride: "pk",
    JobEvent: ("job", "seq"),
    Series: ("job", "name"),
    Curve: ("series__job", "series__name", "block"),
}
"""In which order the rows of each are compared."""
OWN_IDS = (JobEvent, Series, Curve)
"""Rows that nobody outside the database names by their ids."""


def everything():
    """Every column of every row, by the name of its table; people by their names."""
    return {model.__name__: [_columns(row, model) for row in _ordered(model)] for model in TABLES}


def _ordered(model):
    order = TABLES[model]
    return model.objects.order_by(*([order] if isinstance(order, str) else order))


def _columns(row, model):
    columns = records.columns_of(row, leave_out={"id"} if model in OWN_IDS else ())
    if model is Curve:
        columns["series"] = [row.series.job_id, row.series.name]
        columns["payload"] = bytes(row.payload)
    return columns


def lose_the_database(*, with_people=False):
    Submission.objects.all().delete()
    JobInput.objects.all().delete()
    ExportOverride.objects.all().delete()
    Job.objects.all().delete()
    Device.objects.all().delete()
    Upload.objects.all().delete()
    if with_people:
        User.objects.all().delete()


@pytest.fixture
def ran(bench, make_job, monkeypatch):
    monkeypatch.setattr("jobs.retry.DELAYS_S", (0,))

    def run(**script):
        job = make_job(**script)
        return ended(bench, job)

    return run


def ended(bench, job):
    until(lambda: [dispatch()] and bench.status(job) in ENDED)
    return bench.until_ended(job)


def part_of(run, owner, verb):
    part = transitions.begin(
        status=Status.QUEUED, verb=verb, spec={"verb": verb, "script": {"steps": 4}}, title=f"{verb} it",
        owner=owner, part_of=run, retry_of=run, wants=["cpu"], private=True, priority=3,
    )  # fmt: skip
    checkpoint = Artifact.objects.filter(made_by=run).latest("pk")
    JobInput.objects.create(job=part, artifact=checkpoint, role="checkpoint")
    return part


@pytest.fixture
def lived(bench, make_job, ran, user, other_user):
    """Jobs of every verb that ran, were killed, tried again, failed, cancelled, paused, deleted, changed by hand."""
    others = [make_job(verb="import", steps=12), make_job(verb="classify", steps=3)]
    run = ran(steps=600, step_s=0, crash_at={"1": 13})
    for other in others:
        ended(bench, other)
    failed = ran(fail_at=3)
    Job.objects.filter(pk=failed.pk).update(error_message="more words than the last event has")
    services.jobs_delete(user, [failed.pk])
    evaluation, export = (ended(bench, part_of(run, other_user, verb)) for verb in ("evaluate", "export"))
    assert evaluation.status == export.status == Status.SUCCEEDED
    ExportOverride.objects.create(job=export, by=other_user, reason="it is for a demonstration")
    transitions.announce(export.pk)
    services.job_rename(user, run.pk, "as good as it gets — ä")
    services.job_annotate(user, run.pk, "one line\nand another")
    services.job_cancel(user, make_job().pk)
    paused = make_job(steps=2000)
    bench.start(paused)
    bench.until_step(paused, 3)
    services.job_pause(user, paused.pk)
    bench.until_status(paused, Status.PAUSED)
    make_job(status=Status.WAITING)


def test_a_rebuilt_database_is_equal_to_the_one_that_was_lost(lived, make_job):
    before = everything()
    assert all(before.values()), {name: len(rows) for name, rows in before.items()}
    assert {job["verb"] for job in before["Job"]} == {"train", "import", "classify", "evaluate", "export"}
    lose_the_database()
    newest = before["Job"][-1]["id"]
    unknown = storage().job(newest + 5).path
    unknown.mkdir()

    report = rebuild()

    after = everything()
    for name, rows in before.items():
        assert after[name] == rows, name
    assert (report.skipped, report.gaps, report.people) == ([f"{unknown}: it has no record.json"], [], [])
    assert report.n_jobs == len(before["Job"])
    assert list(records.behind()) == []
    # Nothing new takes the number of anything that was, or writes into a folder that is not known.
    job = make_job()
    assert job.pk == newest + 6
    assert job.transitions.get().pk > before["Transition"][-1]["id"]


def test_what_was_lost_with_people_comes_back_under_their_names(make_job, user, other_user):
    kept, deleted = (make_job(status=Status.FAILED) for _ in range(2))
    services.jobs_delete(user, [deleted.pk])
    ExportOverride.objects.create(job=kept, by=other_user, reason="it is for a demonstration")
    transitions.announce(kept.pk)
    lose_the_database(with_people=True)

    report = rebuild()

    assert sorted(report.people) == ["ada", "grace"]
    ada = User.objects.get(username="ada")
    # Not an invitation, which has no password at all.
    assert (ada.is_active, ada.has_usable_password()) == (False, True)
    assert Job.objects.get(pk=kept.pk).owner == ada
    assert ExportOverride.objects.get().by.username == "grace"
    assert Job.objects.get(pk=deleted.pk).trashed_by == ada
    housekeep()
    assert storage().trashed(deleted.pk).is_dir()


def test_damaged_folders_are_named_and_the_rest_is_there(ran, make_job, user):
    torn, (run, unread, strange) = ran(steps=3), (make_job(status=Status.FAILED) for _ in range(3))
    evaluation = transitions.begin(
        status=Status.FAILED, verb="evaluate", spec={}, title="evaluate it", owner=user, part_of=run
    )
    lose_the_database()
    folders = [storage().job(job.pk) for job in (torn, unread, strange)]
    lines = folders[0].events_path.read_bytes().splitlines(keepends=True)
    folders[0].events_path.write_bytes(b"".join(lines[:4]) + b"\0\0\0\n" + b"".join(lines[4:]))
    folders[1].record_path.write_text('{"format": 1, "job": {')
    record = json.loads(folders[2].record_path.read_text())
    folders[2].record_path.write_text(json.dumps({**record, "job": {**record["job"], "mood": "good"}}))
    shutil.rmtree(storage().job(run.pk).path)

    report = rebuild()

    said = dict(line.rsplit("/", 1)[1].split(": ", 1) for line in report.skipped)
    assert said == {
        str(unread.pk): "its record.json is damaged",
        str(strange.pk): "its record.json has mood, which this version does not know",
        str(evaluation.pk): f"it is a part of job {run.pk}, which is not there",
    }
    assert report.gaps == [f"job {torn.pk}: a line of its events cannot be read; what follows is left out"]
    assert (Job.objects.get().pk, Job.objects.get().last_seq) == (torn.pk, 4)


def test_an_upload_that_an_import_names_is_known_again(user):
    upload_id = "ab" * 16
    path = storage().upload_path(upload_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"archive")
    source = {"kind": "upload", "path": storage().upload_input_path(upload_id), "name": "birds.zip"}
    transitions.begin(status=Status.FAILED, verb="import", spec={"source": source}, title="birds", owner=user)
    lose_the_database()

    rebuild()

    upload = Upload.objects.get()
    assert (upload.pk, upload.name, upload.size, upload.owner) == (upload_id, "birds.zip", 7, user)
    assert services.offset_of(upload) == 7


def test_an_attempt_that_no_record_knows_is_closed_and_never_counted_again(bench, make_job, monkeypatch):
    monkeypatch.setattr("jobs.retry.DELAYS_S", (0,))
    job = make_job(status=Status.WAITING)
    storage().job(job.pk).attempt(2).path.mkdir(parents=True)
    lose_the_database()

    rebuild()

    assert [(one.n, one.ended_at is None) for one in Attempt.objects.order_by("n")] == [(1, False), (2, False)]
    transitions.move(job.pk, before=Status.WAITING, after=Status.QUEUED)
    assert bench.start(Job.objects.get(pk=job.pk)).n == 3
    bench.until_ended(job)


def test_only_an_empty_database_is_filled(make_job):
    make_job()

    with pytest.raises(ActionRefused, match="has 1 jobs"):
        rebuild()


def test_nothing_is_rebuilt_under_a_running_server(make_job):
    make_job()
    lose_the_database()
    lock = storage().run_dir / "up.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="Stop it with Ctrl-C"):
            call_command("rebuild")
    assert not Job.objects.exists()


def test_the_command_says_what_became_of_it(make_job, user, capsys):
    make_job()
    lose_the_database(with_people=True)

    call_command("rebuild")

    said = capsys.readouterr().out
    assert "Rebuilt 1 jobs, 0 artifacts, 0 events and 0 points of curves." in said
    assert "Accounts without a password: ada." in said


def test_a_record_follows_its_folder_into_the_trash_and_back(user, make_job):
    job = make_job(status=Status.FAILED)
    services.jobs_delete(user, [job.pk])
    trashed = JobDir(storage().trashed(job.pk))
    assert json.loads(trashed.record_path.read_text())["job"]["trashed_at"]
    assert not storage().job(job.pk).path.exists()

    services.jobs_restore(user, [job.pk])

    assert json.loads(storage().job(job.pk).record_path.read_text())["job"]["trashed_at"] is None
    assert not trashed.path.exists()


def test_what_could_not_be_written_is_written_at_the_next_start(user, make_job, monkeypatch):
    job = make_job()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        services.job_rename(user, job.pk, "a new name")
    assert list(records.behind()) == [job.pk]
    assert [path.name for path in storage().job(job.pk).path.iterdir()] == ["record.json"]

    assert records.keep_all() == 1

    assert list(records.behind()) == []
    assert records.keep_all() == 0


def test_a_connection_that_was_closed_stops_nobody_who_made_a_change(make_job, monkeypatch, caplog):
    job = make_job()

    def closed(_job_id):
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(records, "_body_of", closed)
    records.keep(job.pk)

    assert "connection already closed" in caplog.text


def test_the_last_change_wins_whoever_writes_last(user, make_job, monkeypatch):
    """Another process reads the row, is overtaken, and writes what it had read over the newer record."""
    job = make_job()
    write, overtaken = records._write, []

    def slow(job_id, body):
        if not overtaken:
            overtaken.append(True)
            Job.objects.filter(pk=job_id).update(title="newer")
            write(job_id, records._body_of(job_id))
        return write(job_id, body)

    monkeypatch.setattr(records, "_write", slow)
    records.keep(job.pk)
    Job.objects.filter(pk=job.pk).update(notes="something, so that there is something to write")
    overtaken.clear()
    records.keep(job.pk)

    assert json.loads(storage().job(job.pk).record_path.read_text())["job"]["title"] == "newer"


def test_what_a_database_does_not_know_that_is_older_than_the_files_is_added(ran, make_job, user):
    """A power cut took the last transactions, and others have had their ids since."""
    before, lost = ran(steps=5), ran(steps=7)
    recorded = {model: [_columns(row, model) for row in _ordered(model)] for model in (JobEvent, Series, Curve)}
    titles = {job.pk: job.title for job in Job.objects.all()}
    Job.objects.filter(pk=lost.pk).delete()
    since = transitions.begin(status=Status.FAILED, verb="train", spec={}, title="since", owner=user, id=lost.pk + 3)
    newest = before.transitions.latest("pk").pk
    Transition.objects.filter(job=since).update(id=newest + 1)

    assert n_missing() == 1
    report = bring_back_missing()

    assert (report.n_jobs, report.skipped, report.gaps) == (1, [], [])
    assert {job.pk: job.title for job in Job.objects.exclude(pk=since.pk)} == titles
    for model, rows in recorded.items():
        assert [_columns(row, model) for row in _ordered(model)] == rows
    again = Job.objects.get(pk=lost.pk)
    assert [step.after for step in again.transitions.order_by("pk")] == ["queued", "starting", "running", "succeeded"]
    assert Artifact.objects.filter(made_by=again).count() == 1
    assert n_missing() == 0
    assert bring_back_missing().n_jobs == 0
    assert make_job().pk > since.pk
