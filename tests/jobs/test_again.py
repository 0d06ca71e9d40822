from __future__ import annotations

import pytest

from jobs import services
from jobs.models import Job
from jobs.requests import ClassificationRequest, ExportRequest, ExportTarget, ImportRequest
from jobs.states import ENDED, Status
from tests.jobs.evaluated import finished
from wire.errors import ActionRefused, NotFound, SpecInvalid
from wire.specs import Choice, FromSample

pytestmark = pytest.mark.django_db
SAMPLE = FromSample(name="digits")


@pytest.mark.parametrize("status", sorted(ENDED))
def test_a_training_that_ended_is_made_again_from_the_same_settings(trained, user, status):
    run = trained(status=status)
    again = services.job_retry(user, run.pk)
    assert (again.retry_of_id, again.status, again.spec) == (run.pk, Status.QUEUED, run.spec)
    run.refresh_from_db()
    assert run.status == status


def test_pressed_twice_it_is_one_job_until_that_has_ended(trained, user):
    run = trained(status=Status.FAILED)
    again = services.job_retry(user, run.pk)
    assert services.job_retry(user, run.pk).pk == again.pk
    finished(again, status=Status.FAILED)
    assert services.job_retry(user, run.pk).pk != again.pk


def test_every_kind_of_job_can_be_started_again(trained, user):
    run = trained()
    target = ExportTarget(backend=Choice(name="pytorch"))
    made = [
        services.import_submit(user, ImportRequest(name="digits", source=SAMPLE)),
        services.evaluation_submit(user, run.pk, splits=("val",)),
        services.classification_submit(user, ClassificationRequest(run=run.pk, source=SAMPLE, title="some", top=3)),
        services.exports_submit(user, run.pk, ExportRequest(targets=(target,)))[0].job,
    ]
    for job in made:
        Job.objects.filter(pk=job.pk).update(status=Status.ERRORED)
        again = services.job_retry(user, job.pk)
        assert again.pk != job.pk
        assert (again.retry_of_id, again.verb, again.part_of_id) == (job.pk, job.verb, job.part_of_id)
        # How it came to its checkpoint is told in other words.
        asked, before = ({**each.spec, "checkpoint": None} for each in (again, job))
        assert asked == before
        assert services.job_retry(user, job.pk).pk == again.pk


def test_what_has_not_ended_is_not_started_again(training, user):
    with pytest.raises(ActionRefused, match="it has not ended"):
        services.job_retry(user, training().pk)


def test_a_private_run_is_not_there_for_others(trained, other_user):
    run = trained(private=True)
    for wish in (services.job_retry, services.job_begin_anew, lambda who, job: services.job_clone(who, job, {})):
        with pytest.raises(NotFound):
            wish(other_user, run.pk)


def test_a_clone_differs_in_what_was_named_and_in_nothing_else(trained, user):
    run = trained()
    clone = services.job_clone(user, run.pk, {"title": "shorter", "options": {"epochs": 2}})
    assert (clone.title, clone.retry_of_id) == ("shorter", run.pk)
    assert clone.spec == run.spec | {"options": run.spec["options"] | {"epochs": 2}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"epochs": 0}}, r"options\.epochs"),
        ({"options": {"nothing": 1}}, r"options\.nothing"),
        ({"options": 3}, "options"),
        ({"nothing": 1}, "nothing"),
        ({"model": {"name": "nothing"}}, "nothing"),
    ],
)
def test_changes_that_do_not_fit_are_refused_by_name(trained, user, changes, words):
    run = trained()
    n_jobs = Job.objects.count()
    with pytest.raises(SpecInvalid, match=words):
        services.job_clone(user, run.pk, changes)
    assert Job.objects.count() == n_jobs


def test_only_a_run_without_a_checkpoint_that_can_be_read_begins_anew(trained, user):
    run = trained(status=Status.FAILED)
    with pytest.raises(ActionRefused, match="did not end because"):
        services.job_begin_anew(user, run.pk)
    Job.objects.filter(pk=run.pk).update(error_code="checkpoint.none_intact")
    anew = services.job_begin_anew(user, run.pk)
    assert (anew.retry_of_id, anew.status, anew.spec) == (run.pk, Status.QUEUED, run.spec)
