from __future__ import annotations

import shutil

import pytest

from config.start import prepare as steps
from config.start.places import Places
from config.start.preflight import StartError
from jobs.models import Device, Job
from jobs.states import Status
from jobs.storage import storage
from jobs.transitions import begin
from wire.errors import DiskFull

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def prepare(monkeypatch):
    """Without static files, of which tests/config/test_static.py tells."""
    monkeypatch.setattr(steps, "collect_static", lambda _path: False)
    said = []

    def run():
        steps.prepare(Places(storage().root), said.append)
        return said

    return run


def job_of(user):
    return begin(status=Status.FAILED, verb="train", spec={}, title="digits", owner=user)


def test_nothing_is_said_where_nothing_is_to_be_done(prepare, user):
    job_of(user)
    assert prepare() == []


def test_jobs_that_the_database_has_lost_are_brought_back_before_anything_starts(prepare, user):
    job_of(user)
    lost = job_of(user)
    Job.objects.filter(pk=lost.pk).delete()

    assert prepare() == ["The database was older than the files: 1 jobs were brought back from their folders."]

    assert Job.objects.get(pk=lost.pk).title == "digits"
    assert job_of(user).pk == lost.pk + 1


def test_an_empty_database_beside_files_of_jobs_is_no_start(prepare, user):
    job_of(user)
    Job.objects.all().delete()
    Device.objects.all().delete()

    with pytest.raises(StartError, match=r"DATA_DIR has 1 jobs\. Run manage.py rebuild"):
        prepare()


def test_a_database_that_cannot_be_copied_is_not_changed(prepare, monkeypatch):
    migrated = []
    monkeypatch.setattr(steps, "call_command", lambda *_, **__: migrated.append(True))

    def full(_say):
        raise DiskFull("The backup takes 2 GB; 1 GB of room are missing in /data/backups.")

    monkeypatch.setattr(steps, "back_up_before_migrating", full)
    with pytest.raises(StartError, match="could not be copied first: The backup takes 2 GB; 1 GB of room are missing"):
        prepare()
    assert migrated == []


def test_where_the_copy_lies_is_said(prepare, monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "back_up_before_migrating", lambda _say: tmp_path)
    assert prepare() == [f"The database is changed for this version; as it was it is in {tmp_path}"]
    shutil.rmtree(tmp_path)
