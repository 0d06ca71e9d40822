from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import housekeeping, services
from jobs.housekeeping import housekeep, move_to_trash
from jobs.models import Job
from jobs.services import trash
from jobs.states import Status
from jobs.storage import storage
from tests.jobs.evaluated import finished
from wire.errors import ActionRefused, NotFound

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def filed(trained):
    """A run with files, on a dataset with files."""

    def make(**columns):
        run = trained(**columns)
        dataset = run.inputs.get(role="dataset").artifact.made_by
        for job in (run, dataset):
            folder = storage().job(job.pk).path
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "kept").write_text(f"of {job.pk}")
        return run, dataset

    return make


def evaluation_of(run, user):
    return finished(services.evaluation_submit(user, run.pk, splits=("val",)))


def is_there(job):
    return (storage().job(job.pk).path / "kept").exists()


def ids(rows):
    return [row.id for row in rows]


def test_it_comes_back_as_it_was(filed, user):
    run, _ = filed()
    before = Job.objects.values().get(pk=run.pk)
    services.jobs_delete(user, [run.pk])
    assert not is_there(run)
    (row,) = services.trash_of(user)
    assert (row.id, row.trashed_by, row.goes_at - row.trashed_at) == (run.pk, "ada", timedelta(days=7))
    assert services.jobs_restore(user, [run.pk]) == 1
    assert is_there(run)
    assert Job.objects.values().get(pk=run.pk) == before
    assert services.trash_of(user) == []
    housekeep()
    assert is_there(run)


def test_parts_come_back_with_their_run_unless_they_were_deleted_before(filed, user):
    run, _ = filed()
    early, late = evaluation_of(run, user), evaluation_of(run, user)
    services.jobs_delete(user, [early.pk])
    services.jobs_delete(user, [run.pk])
    assert ids(services.trash_of(user)) == [run.pk, early.pk]
    assert services.trash_of(user)[0].n_parts == 1
    assert services.jobs_restore(user, [run.pk]) == 2
    assert Job.objects.get(pk=late.pk).trashed_at is None
    assert ids(services.trash_of(user)) == [early.pk]


def test_a_run_brings_the_dataset_along_that_it_was_trained_on(filed, user):
    run, dataset = filed()
    services.jobs_delete(user, [run.pk, dataset.pk])
    assert {row.id: row.needs for row in services.trash_of(user)} == {run.pk: [dataset.pk], dataset.pk: []}
    assert services.jobs_restore(user, [run.pk]) == 2
    assert is_there(run)
    assert is_there(dataset)


def test_a_part_brings_its_run_along(filed, user):
    run, _ = filed()
    part = evaluation_of(run, user)
    services.jobs_delete(user, [part.pk])
    services.jobs_delete(user, [run.pk])
    assert services.jobs_restore(user, [part.pk]) == 2
    assert Job.objects.get(pk=run.pk).trashed_at is None


def test_what_it_needs_of_somebody_else_has_to_be_restored_by_them(filed, user, other_user, admin_user):
    run, dataset = filed()
    Job.objects.filter(pk=dataset.pk).update(owner=other_user)
    services.jobs_delete(admin_user, [run.pk, dataset.pk])
    with pytest.raises(ActionRefused, match=r"belongs to grace: digits \(#"):
        services.jobs_restore(user, [run.pk])
    assert not is_there(run)
    assert services.jobs_restore(other_user, [dataset.pk]) == 1
    assert services.jobs_restore(user, [run.pk]) == 1


def test_everybody_sees_their_own_trash_and_administrators_all_of_it(filed, user, other_user, admin_user):
    run, _ = filed()
    services.jobs_delete(user, [run.pk])
    assert ids(services.trash_of(admin_user)) == [run.pk]
    assert services.trash_of(other_user) == []
    for wish in (services.jobs_restore, services.jobs_remove):
        with pytest.raises(NotFound):
            wish(other_user, [run.pk])
    assert ids(services.trash_of(user)) == [run.pk]


def test_removed_for_good_nothing_is_left(filed, user):
    run, dataset = filed()
    part = evaluation_of(run, user)
    services.jobs_delete(user, [run.pk, dataset.pk])
    with pytest.raises(ActionRefused, match=r"Still used by a run \(#"):
        services.jobs_remove(user, [dataset.pk])
    assert services.jobs_remove(user, [run.pk, dataset.pk]) == 3
    assert not Job.objects.filter(pk__in=[run.pk, dataset.pk, part.pk]).exists()
    for job in (run, dataset, part):
        assert not storage().trashed(job.pk).exists()
        assert not storage().job(job.pk).path.exists()
    with pytest.raises(NotFound):
        services.jobs_restore(user, [run.pk])


def test_what_is_not_in_the_trash_is_not_removed(filed, user):
    run, _ = filed()
    with pytest.raises(NotFound, match="in the trash"):
        services.jobs_remove(user, [run.pk])
    assert is_there(run)


def test_a_round_of_housekeeping_that_comes_too_late_carries_nothing_away(filed, user):
    run, _ = filed()
    services.jobs_delete(user, [run.pk])
    services.jobs_restore(user, [run.pk])
    move_to_trash(run.pk)
    assert is_there(run)


def test_files_that_are_gone_are_said_and_the_row_stays_in_the_trash(filed, user):
    run, _ = filed()
    services.jobs_delete(user, [run.pk])
    storage().trashed(run.pk).rename(storage().trash_dir / "elsewhere")
    with pytest.raises(NotFound, match="are gone"):
        services.jobs_restore(user, [run.pk])
    assert ids(services.trash_of(user)) == [run.pk]


def test_after_a_week_it_goes_by_itself(filed, user):
    run, dataset = filed()
    services.jobs_delete(user, [run.pk, dataset.pk])
    housekeep()
    assert len(services.trash_of(user)) == 2
    Job.objects.filter(pk__in=[run.pk, dataset.pk]).update(trashed_at=timezone.now() - timedelta(days=8))
    housekeep()
    assert not Job.objects.filter(pk__in=[run.pk, dataset.pk]).exists()
    assert not any(storage().trash_dir.iterdir())


def test_what_is_brought_back_while_others_are_removed_stays(filed, user, monkeypatch):
    (early, _), (late, _) = filed(), filed()
    services.jobs_delete(user, [early.pk, late.pk])
    Job.objects.filter(pk__in=[early.pk, late.pk]).update(trashed_at=timezone.now() - timedelta(days=8))
    remove_files = housekeeping.remove_files

    def meanwhile(gone):
        remove_files(gone)
        services.jobs_restore(user, [early.pk])

    monkeypatch.setattr(housekeeping, "remove_files", meanwhile)
    housekeep()

    assert is_there(early)
    assert not Job.objects.filter(pk=late.pk).exists()


@pytest.mark.parametrize("wish", [services.jobs_restore, services.jobs_remove])
def test_what_vanishes_meanwhile_is_not_said_to_be_back(filed, user, monkeypatch, wish):
    run, _ = filed()
    services.jobs_delete(user, [run.pk])
    found = trash._found

    def overtaken(*arguments):
        jobs = found(*arguments)
        Job.objects.get(pk=run.pk).delete()
        return jobs

    monkeypatch.setattr(trash, "_found", overtaken)
    with pytest.raises(NotFound, match=f"There is no #{run.pk} in the trash"):
        wish(user, [run.pk])


def test_a_paused_run_has_to_be_cancelled_before_it_is_deleted(training, user):
    run = training(status=Status.PAUSED)
    with pytest.raises(ActionRefused, match="Not ended yet"):
        services.jobs_delete(user, [run.pk])
    services.job_cancel(user, run.pk)
    assert services.jobs_delete(user, [run.pk]) == 1
