from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.janitor import stale_files, tidy_at_start
from jobs.models import Attempt, Job
from jobs.process import locked
from jobs.records import behind
from jobs.states import Status
from jobs.storage import storage

pytestmark = pytest.mark.django_db(transaction=True)

AN_HOUR_S = 3600


def aged(path, age_s, *, folder=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        path.mkdir()
        (path / "half").write_text("of a checkpoint")
    else:
        path.write_text("half")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_killed_processes_left_is_removed(make_job):
    job = storage().job(make_job(status=Status.FAILED).pk)
    old = [
        aged(job.path / "spec.tmp", AN_HOUR_S),
        aged(job.path / ".record.12.12", AN_HOUR_S),
        aged(job.attempt(1).path / "exit.tmp", AN_HOUR_S),
        aged(job.scratch_dir, AN_HOUR_S, folder=True),
        aged(storage().run_dir / "state.tmp", AN_HOUR_S),
        aged(storage().backups_dir / "fovea-1.unfinished", AN_HOUR_S, folder=True),
    ]
    kept = [
        aged(job.path / "events.jsonl", AN_HOUR_S),
        aged(job.artifacts_dir / "note.tmp", AN_HOUR_S),
        aged(job.path / "soon.tmp", 5),
        aged(storage().backups_dir / "fovea-2" / "manifest.json", AN_HOUR_S),
    ]
    copying = aged(storage().backups_dir / "fovea-3.unfinished", AN_HOUR_S, folder=True)
    with locked(copying / "lock"):
        os.utime(copying, (time.time() - AN_HOUR_S,) * 2)
        assert set(stale_files()) == set(old)

        tidy_at_start()

        assert (copying / "half").exists()

    assert [path for path in old if path.exists()] == []
    assert [path for path in kept if not path.exists()] == []


def test_what_an_attempt_that_goes_on_may_be_writing_is_left_alone(make_job):
    """Also in the folders of other jobs: what is younger than the oldest attempt may belong to any of them."""
    at_work, other = make_job(status=Status.RUNNING), make_job(status=Status.FAILED)
    began = timezone.now() - timedelta(hours=2)
    Attempt.objects.create(job=at_work, n=1, fence=1, host="here", started_at=began)
    mine = aged(storage().job(at_work.pk).scratch_dir, 3 * AN_HOUR_S, folder=True)
    aged(storage().job(other.pk).path / "young.tmp", AN_HOUR_S)
    old = aged(storage().job(other.pk).path / "old.tmp", 3 * AN_HOUR_S)

    assert list(stale_files()) == [old]
    tidy_at_start()
    assert mine.is_dir()


def test_records_that_a_crash_or_an_older_version_left_out_are_written(make_job):
    jobs = [make_job() for _ in range(3)]
    storage().job(jobs[0].pk).record_path.unlink()
    Job.objects.filter(pk=jobs[1].pk).update(title="not announced")
    assert list(behind()) == [jobs[0].pk, jobs[1].pk]

    tidy_at_start()

    assert list(behind()) == []
