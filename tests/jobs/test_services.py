from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import selectors, services
from jobs.access import job_for, visible_jobs
from jobs.housekeeping import housekeep
from jobs.lineage import wake_dependents
from jobs.models import ApiToken, Artifact, Device, Job, JobInput
from jobs.reconcile import reconcile
from jobs.requests import CheckpointInit, ImportRequest, TrainingRequest
from jobs.states import ENDED, Status
from jobs.storage import storage
from wire.errors import ActionRefused, DatasetMissing, NotFound, SpecInvalid
from wire.specs import Choice, FromFolder, FromPublished, FromSample, TrainOptions

pytestmark = pytest.mark.django_db


@pytest.fixture
def imported(user):
    """A dataset as the digits make one, ready."""

    def make(owner=user, **columns):
        job = services.import_submit(owner, ImportRequest(name="digits", source=FromSample(name="digits")))
        artifact = Artifact.objects.create(
            made_by=job, kind="dataset", name="dataset", path="artifacts/dataset", sha256="a" * 64, bytes=9,
            meta={"n_images": 1797, "classes": ["0", "1"]},
        )  # fmt: skip
        finish(job, **columns)
        return job, artifact

    return make


def finish(job, status=Status.SUCCEEDED, **columns):
    """As a supervisor would have left it."""
    rows = Job.objects.filter(pk=job.pk)
    rows.update(ended_at=timezone.now(), status=status, **columns)
    job.refresh_from_db()


def request(dataset, **changes):
    return TrainingRequest(**{"dataset": dataset.pk, "model": Choice(name="lenet5"), **changes})


def checkpoint(run, name="step-9"):
    return Artifact.objects.create(
        made_by=run, kind="checkpoint", name=name, path=f"artifacts/checkpoints/{name}.pt", sha256="c" * 64, bytes=5
    )


def test_an_import_is_queued_with_its_spec(user):
    job = services.import_submit(user, ImportRequest(name="Digits", source=FromSample(name="digits"), private=True))
    assert (job.verb, job.status, job.title, job.wants, job.private) == ("import", "queued", "Digits", [], True)
    assert job.spec["source"] == {"kind": "sample", "name": "digits"}
    assert [step.reason for step in selectors.timeline_of(job)] == ["submitted by ada"]


def test_a_sample_or_format_that_does_not_exist(user):
    with pytest.raises(SpecInvalid, match="no sample called 'cats'"):
        services.import_submit(user, ImportRequest(name="x", source=FromSample(name="cats")))
    with pytest.raises(SpecInvalid, match="no format called 'zip'"):
        services.import_submit(user, ImportRequest(name="x", source=FromSample(name="digits"), format="zip"))


def test_a_folder_is_taken_from_below_an_offered_root_alone(user, settings, tmp_path):
    (tmp_path / "offered" / "set").mkdir(parents=True)
    (tmp_path / "offered" / "way-out").symlink_to(tmp_path)

    def submit(path):
        return services.import_submit(user, ImportRequest(name="x", source=FromFolder(path=str(path))))

    with pytest.raises(ActionRefused, match="is not offered"):
        submit(tmp_path / "offered" / "set")
    settings.IMPORT_ROOTS = [tmp_path / "offered"]
    assert submit(tmp_path / "offered" / "set").status == Status.QUEUED
    for outside in (tmp_path, tmp_path / "offered" / ".." / "other", tmp_path / "offered" / "way-out"):
        with pytest.raises(ActionRefused):
            submit(outside)


def test_a_training_names_its_dataset_by_a_relative_path(user, imported):
    dataset, artifact = imported()
    job = services.training_submit(user, request(dataset, options=TrainOptions(epochs=3), notes="n"))
    assert (job.status, job.wants, job.notes) == (Status.QUEUED, ["any"], "n")
    assert job.title.endswith(" on digits")
    assert job.spec["dataset"] == f"../{dataset.pk}/artifacts/dataset"
    assert (job.spec["device"], job.spec["options"]["epochs"]) == ("auto", 3)
    assert JobInput.objects.get(job=job, role="dataset").artifact == artifact


def test_it_waits_for_a_dataset_that_is_being_imported_and_is_woken(user):
    dataset = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    job = services.training_submit(user, request(dataset))
    assert (job.status, job.wait_reason) == (Status.WAITING, "Waiting for the dataset digits to be imported")
    assert wake_dependents(dataset.pk) == []
    artifact = Artifact.objects.create(
        made_by=dataset, kind="dataset", name="dataset", path="artifacts/dataset", sha256="a" * 64, bytes=9
    )
    finish(dataset)
    assert wake_dependents(dataset.pk) == [job.pk]
    job.refresh_from_db()
    assert (job.status, job.wait_reason) == (Status.QUEUED, "")
    assert job.inputs.get().artifact == artifact


@pytest.mark.parametrize("status", sorted(ENDED - {Status.SUCCEEDED}))
def test_it_fails_with_its_dataset(user, status):
    dataset = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    job = services.training_submit(user, request(dataset))
    finish(dataset, status=status)
    reconcile()
    job.refresh_from_db()
    assert (job.status, job.error_code) == (Status.FAILED, "dataset.missing")
    assert job.ended_at is not None
    with pytest.raises(DatasetMissing):
        services.training_submit(user, request(dataset))


def test_cancelling_the_import_fails_who_waits_for_it(user):
    dataset = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    job = services.training_submit(user, request(dataset))
    services.job_cancel(user, dataset.pk)
    job.refresh_from_db()
    assert job.status == Status.FAILED


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": Choice(name="vgg99")}, "no model called 'vgg99'"),
        ({"model": Choice(name="lenet5", options={"wings": 2})}, "option wings"),
        ({"task": Choice(name="poetry")}, "no task called 'poetry'"),
        ({"model": Choice(name="alexnet"), "options": TrainOptions(image_px=8)}, "needs images of at least"),
        ({"init": FromPublished(weights="nobody")}, "no published weights called 'nobody'"),
        ({"devices": ["GPU-404"]}, "no device 'GPU-404'"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_runs(user, imported, changes, said):
    dataset, _ = imported()
    with pytest.raises(SpecInvalid, match=said):
        services.training_submit(user, request(dataset, **changes))
    assert Job.objects.filter(verb="train").count() == 0


def test_two_devices_are_refused(user, imported):
    with pytest.raises(ActionRefused, match="2 devices"):
        services.training_submit(user, request(imported()[0], devices=["a", "b"]))


def test_the_device_of_the_spec_follows_the_wish(user, imported):
    dataset, _ = imported()
    now = timezone.now()
    Device.objects.create(uuid="GPU-7", host="h", kind="cuda", name="GPU 0", seen_at=now)
    Device.objects.create(uuid="cpu:h:0", host="h", kind="cpu", name="CPU", seen_at=now)
    wishes = {"any": "auto", "cpu": "cpu", "cpu:h:0": "cpu", "GPU-7": "cuda"}
    jobs = {wish: services.training_submit(user, request(dataset, devices=[wish])) for wish in wishes}
    assert {wish: job.spec["device"] for wish, job in jobs.items()} == wishes


def test_a_device_that_is_gone_is_refused(user, imported):
    dataset, _ = imported()
    now = timezone.now()
    Device.objects.create(uuid="GPU-7", host="lab1", kind="cuda", name="GPU 0", seen_at=now - timedelta(minutes=5))
    Device.objects.create(uuid="cpu:h:0", host="h", kind="cpu", name="CPU", seen_at=now)
    with pytest.raises(SpecInvalid, match="GPU 0 on lab1 is gone; it was last seen 20") as refused:
        services.training_submit(user, request(dataset, devices=["GPU-7"]))
    assert refused.value.hint == "Choose one of: any, cpu, cpu:h:0."


def test_a_run_is_not_a_dataset(user, imported):
    run = services.training_submit(user, request(imported()[0]))
    with pytest.raises(SpecInvalid, match="is a run, not a dataset"):
        services.training_submit(user, request(run))


def test_a_training_from_a_checkpoint_and_the_request_that_made_it(user, imported):
    dataset, _ = imported()
    first = services.training_submit(user, request(dataset))
    made = checkpoint(first)
    wish = request(
        dataset, init=CheckpointInit(artifact=made.pk), title="again", devices=["cpu"], options=TrainOptions(seed=4)
    )
    with pytest.raises(ActionRefused, match="has not ended"):
        services.training_submit(user, wish)
    finish(first)
    job = services.training_submit(user, wish)
    assert job.spec["init"] == {"kind": "checkpoint", "path": f"../{first.pk}/artifacts/checkpoints/step-9.pt"}
    assert job.inputs.get(role="checkpoint").artifact == made
    again = services.training_request_of(job)
    assert again == wish.model_copy(update={"retry_of": job.pk, "model": again.model, "task": again.task})
    assert services.training_submit(user, again).retry_of == job
    with pytest.raises(SpecInvalid, match="is a lenet5, not a resnet20"):
        services.training_submit(user, wish.model_copy(update={"model": Choice(name="resnet20")}))
    assert [info.id for info in selectors.checkpoints_of(user, model="lenet5")] == [made.pk]
    assert selectors.checkpoints_of(user, model="resnet20") == []


def test_another_s_private_checkpoint_does_not_exist(user, other_user, imported):
    dataset, _ = imported()
    secret = services.training_submit(other_user, request(dataset, private=True))
    made = checkpoint(secret)
    with pytest.raises(NotFound):
        services.training_submit(user, request(dataset, init=CheckpointInit(artifact=made.pk)))


def test_private_hides_from_all_but_owner_and_administrator(user, other_user, admin_user, imported):
    dataset, _ = imported(private=True)
    assert job_for(user, dataset.pk, change=True) == dataset
    assert job_for(admin_user, dataset.pk, change=True) == dataset
    assert list(visible_jobs(other_user)) == []
    with pytest.raises(NotFound):
        job_for(other_user, dataset.pk)


def test_a_run_on_a_private_dataset_is_private(user, imported):
    dataset, _ = imported(private=True)
    assert services.training_submit(user, request(dataset)).private is True


def test_the_title_of_a_private_dataset_is_told_to_those_who_see_it(user, other_user, admin_user, imported):
    dataset, _ = imported()
    run = services.training_submit(user, request(dataset))
    Job.objects.filter(pk=dataset.pk).update(private=True)
    for who in (user, admin_user):
        assert selectors.job_summary(run, who).dataset.title == dataset.title
    for stranger in (other_user, None):
        assert selectors.job_summary(run, stranger).dataset.title == "a private dataset"


def test_others_see_and_do_not_change(user, other_user, admin_user, imported):
    dataset, _ = imported()
    assert selectors.job_summary(job_for(other_user, dataset.pk), other_user).can_change is False
    for change in (
        lambda: services.job_rename(other_user, dataset.pk, "mine"),
        lambda: services.job_annotate(other_user, dataset.pk, "mine"),
        lambda: services.jobs_delete(other_user, [dataset.pk]),
        lambda: services.job_cancel(other_user, dataset.pk),
    ):
        with pytest.raises(ActionRefused, match="belongs to ada"):
            change()
    assert services.job_rename(admin_user, dataset.pk, "  theirs ").title == "theirs"
    assert services.job_annotate(user, dataset.pk, "noted").notes == "noted"
    with pytest.raises(SpecInvalid):
        services.job_rename(user, dataset.pk, "   ")


@pytest.mark.parametrize("status", [Status.WAITING, Status.QUEUED, Status.PAUSED])
def test_what_does_not_run_is_cancelled_at_once(user, make_job, status):
    job = services.job_cancel(user, make_job(status=status).pk)
    assert job.status == Status.CANCELLED
    assert job.ended_at is not None
    with pytest.raises(ActionRefused, match="cancelled already"):
        services.job_cancel(user, job.pk)


@pytest.mark.parametrize("status", [Status.STARTING, Status.RUNNING, Status.PAUSING])
def test_what_runs_is_asked_to_stop(user, make_job, status):
    job = make_job(status=status)
    assert services.job_cancel(user, job.pk).status == Status.CANCELLING
    assert services.job_cancel(user, job.pk).status == Status.CANCELLING


@pytest.mark.django_db(transaction=True)
def test_delete_moves_to_the_trash_all_or_nothing(user, imported):
    dataset, _ = imported()
    run = services.training_submit(user, request(dataset, title="a run"))
    for job in (dataset, run):
        storage().job(job.pk).artifacts_dir.mkdir(parents=True)
    with pytest.raises(ActionRefused, match=r"Not ended yet: a run \(#"):
        services.jobs_delete(user, [dataset.pk, run.pk])
    finish(run)
    with pytest.raises(ActionRefused, match=r"Still used by a run \(#"):
        services.jobs_delete(user, [dataset.pk])
    assert storage().job(dataset.pk).path.is_dir()
    assert services.jobs_delete(user, [dataset.pk, run.pk, run.pk]) == 2
    assert selectors.jobs_of(user) == []
    assert not storage().job(dataset.pk).path.exists()
    assert (storage().trash_dir / str(run.pk)).is_dir()
    with pytest.raises(NotFound):
        services.jobs_delete(user, [run.pk])


@pytest.mark.django_db(transaction=True)
def test_the_trash_is_emptied_after_a_week(user, imported):
    dataset, _ = imported()
    run = services.training_submit(user, request(dataset))
    finish(run)
    storage().job(run.pk).path.mkdir(parents=True, exist_ok=True)
    services.jobs_delete(user, [dataset.pk, run.pk])
    housekeep()
    assert Job.objects.count() == 2
    Job.objects.update(trashed_at=timezone.now() - timedelta(days=8))
    housekeep()
    assert Job.objects.count() == 0
    assert list(storage().trash_dir.iterdir()) == []


def test_a_dataset_that_somebody_waits_for_stays(user, imported):
    dataset, _ = imported()
    job = services.training_submit(user, request(dataset, title="sleeper"))
    job.inputs.all().delete()
    Job.objects.filter(pk=job.pk).update(status=Status.WAITING)
    with pytest.raises(ActionRefused, match="sleeper"):
        services.jobs_delete(user, [dataset.pk])


def test_tokens_are_shown_once_and_kept_as_a_hash(user, other_user, admin_user):
    token, secret = services.token_create(user, " laptop ", scope="read")
    assert (token.name, token.scope) == ("laptop", "read")
    assert secret.startswith(token.prefix)
    assert secret not in str(vars(ApiToken.objects.get()))
    assert services.token_find(secret) == token
    assert ApiToken.objects.get().used_at is not None
    assert services.token_find(secret + "x") is None
    with pytest.raises(NotFound):
        services.token_revoke(other_user, token.pk)
    ApiToken.objects.update(expires_at=timezone.now())
    assert services.token_find(secret) is None
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    user.is_active = False
    user.save()
    assert services.token_find(secret) is None
    services.token_revoke(admin_user, token.pk)
    assert not ApiToken.objects.exists()
    with pytest.raises(SpecInvalid):
        services.token_create(user, " ")
