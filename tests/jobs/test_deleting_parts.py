"""A run takes its evaluations and classifications along."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import evaluations, selectors, services
from jobs.housekeeping import housekeep
from jobs.models import Job
from jobs.states import Status
from jobs.storage import storage
from tests.jobs.evaluated import finished
from wire.errors import ActionRefused

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_a_run_takes_its_parts_along(user, other_user, trained):
    run = trained()
    done = finished(services.evaluation_submit(other_user, run.pk))
    waiting = services.evaluation_submit(other_user, run.pk)
    for job in (run, done):
        storage().job(job.pk).artifacts_dir.mkdir(parents=True)
    assert services.jobs_delete(user, [run.pk]) == 1
    assert selectors.jobs_of(user, verb="evaluate") == []
    assert Job.objects.get(pk=waiting.pk).status == Status.CANCELLED
    assert {path.name for path in storage().trash_dir.iterdir()} == {str(run.pk), str(done.pk), str(waiting.pk)}
    Job.objects.update(trashed_at=timezone.now() - timedelta(days=8))
    Job.objects.filter(verb="import").update(trashed_at=None)
    housekeep()
    assert list(Job.objects.values_list("verb", flat=True)) == ["import"]
    assert list(storage().trash_dir.iterdir()) == []


def test_a_part_that_runs_keeps_its_run_and_cancels_nothing(user, trained):
    run = trained()
    busy, waiting = (services.evaluation_submit(user, run.pk) for _ in range(2))
    Job.objects.filter(pk=busy.pk).update(status=Status.RUNNING)
    with pytest.raises(ActionRefused, match=rf"Not ended yet: Evaluation of a run \(#{busy.pk}\)\."):
        services.jobs_delete(user, [run.pk])
    waiting.refresh_from_db()
    assert waiting.status == Status.QUEUED
    assert not Job.objects.exclude(trashed_at=None).exists()


def test_a_single_evaluation_is_cancelled_and_deleted(user, trained):
    run = trained()
    job = services.evaluation_submit(user, run.pk)
    services.job_cancel(user, job.pk)
    assert services.jobs_delete(user, [job.pk]) == 1
    assert evaluations.evaluations_of(user, run.pk) == []
    assert [found.id for found in selectors.runs_of(user)] == [run.pk]


def test_a_dataset_that_an_evaluation_read_stays(user, imported, trained):
    run, other = trained(), imported(title="other digits")
    job = finished(services.evaluation_submit(user, run.pk, dataset=other.pk))
    with pytest.raises(ActionRefused, match=r"Still used by Evaluation of a run \(#"):
        services.jobs_delete(user, [other.pk])
    assert services.jobs_delete(user, [other.pk, run.pk]) == 2
    job.refresh_from_db()
    assert job.trashed_at is not None


def test_the_trash_lets_an_evaluation_go_before_the_run_whose_checkpoint_it_read(user, trained):
    run = trained()
    finished(services.evaluation_submit(user, run.pk))
    services.jobs_delete(user, [run.pk])
    Job.objects.filter(pk=run.pk).update(trashed_at=timezone.now() - timedelta(days=8))
    housekeep()
    assert Job.objects.filter(pk=run.pk).exists()
    shutil.rmtree(storage().trash_dir, ignore_errors=True)


def test_the_owner_of_a_run_may_cancel_what_others_made_of_it(user, other_user, trained):
    run = trained(owner=other_user)
    part = services.evaluation_submit(user, run.pk)
    services.job_cancel(other_user, part.pk)
    part.refresh_from_db()
    assert part.status == Status.CANCELLED
    assert services.jobs_delete(other_user, [run.pk]) == 1


def test_who_made_a_part_may_not_change_its_run(user, other_user, trained):
    run = trained(owner=other_user)
    services.evaluation_submit(user, run.pk)
    with pytest.raises(ActionRefused):
        services.jobs_delete(user, [run.pk])
