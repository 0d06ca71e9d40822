from __future__ import annotations

import pytest
from django.utils import timezone

from jobs import evaluations, selectors, services
from jobs.models import Artifact, Job
from jobs.requests import ClassificationRequest, ImportRequest, TrainingRequest, UploadSource
from jobs.states import Status
from jobs.storage import storage
from jobs.uploads import readers_of
from wire.errors import ActionRefused, NotFound, SpecInvalid, UploadMissing
from wire.specs import Choice, ClassifySpec, FromFolder, FromSample

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    """One that ended with a best checkpoint and a newer one."""
    dataset = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    Artifact.objects.create(
        made_by=dataset, kind="dataset", name="dataset", path="artifacts/dataset", sha256="a" * 64, bytes=9
    )
    Job.objects.filter(pk=dataset.pk).update(status=Status.SUCCEEDED)
    run = services.training_submit(
        user, TrainingRequest(dataset=dataset.pk, model=Choice(name="lenet5"), title="a run")
    )
    for step in (10, 20):
        Artifact.objects.create(
            made_by=run, kind="checkpoint", name=f"step-{step}", path=f"artifacts/checkpoints/step-{step}.pt",
            sha256="c" * 64, bytes=5, meta={"step": step, "epoch": 1.0},
        )  # fmt: skip
    Job.objects.filter(pk=run.pk).update(
        status=Status.SUCCEEDED, ended_at=timezone.now(), best_series="val/top1", best_value=90.0, best_step=10
    )
    run.refresh_from_db()
    return run


def request(run, **changes):
    return ClassificationRequest(**{"run": run.pk, "source": FromSample(name="digits"), **changes})


def test_a_classification_asks_for_no_device(user, run):
    job = services.classification_submit(user, request(run, top=3))
    assert (job.verb, job.status, job.wants, job.part_of, job.owner) == ("classify", "queued", [], run, user)
    assert job.title.endswith(" classified by a run")
    spec = ClassifySpec.model_validate(job.spec)
    assert (spec.top, spec.device, spec.source) == (3, "cpu", FromSample(name="digits"))
    assert spec.checkpoint.path == f"../{run.pk}/artifacts/checkpoints/step-10.pt"
    assert spec.checkpoint.chosen == "Best val/top1, 90.00 %"
    assert job.inputs.get().role == "checkpoint"
    assert [found.id for found in evaluations.classifications_of(user, run.pk)] == [job.pk]
    assert evaluations.evaluations_of(user, run.pk) == []
    assert selectors.jobs_of(user, verb="classify")[0].part_of.title == "a run"


def test_checkpoint_title_and_privacy_are_as_asked(user, other_user, run):
    newest = run.artifacts.get(name="step-20")
    job = services.classification_submit(user, request(run, checkpoint=newest.pk, title=" mine ", private=True))
    spec = ClassifySpec.model_validate(job.spec)
    assert (spec.checkpoint.name, spec.checkpoint.chosen) == ("step-20", "Chosen by hand")
    assert (job.title, job.private) == ("mine", True)
    assert evaluations.classifications_of(other_user, run.pk) == []
    with pytest.raises(NotFound):
        evaluations.classification_for(other_user, job.pk)
    assert evaluations.classification_for(user, job.pk) == job
    with pytest.raises(NotFound, match="is no classification"):
        evaluations.classification_for(user, run.pk)


def test_an_uploaded_file_is_named_and_kept_while_it_is_read(user, other_user, run):
    upload = services.upload_begin(user, "cats & dogs.zip", 3)
    wish = request(run, source=UploadSource(upload=upload.pk))
    with pytest.raises(ActionRefused, match="is not complete"):
        services.classification_submit(user, wish)
    path = storage().upload_path(upload.pk)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"abc")
    job = services.classification_submit(user, wish)
    assert job.spec["source"]["path"] == storage().upload_input_path(upload.pk)
    assert job.title == "cats & dogs.zip classified by a run"
    assert readers_of(upload.pk) == [job]
    with pytest.raises(ActionRefused, match="is still read by"):
        services.upload_delete(user, upload.pk)
    with pytest.raises(UploadMissing):
        services.classification_submit(other_user, wish)


def test_a_folder_is_taken_from_below_an_offered_root_alone(user, run, settings, tmp_path):
    (tmp_path / "offered" / "cats").mkdir(parents=True)
    settings.IMPORT_ROOTS = [tmp_path / "offered"]
    job = services.classification_submit(user, request(run, source=FromFolder(path=str(tmp_path / "offered" / "cats"))))
    assert job.title == "cats classified by a run"
    with pytest.raises(ActionRefused):
        services.classification_submit(user, request(run, source=FromFolder(path=str(tmp_path))))


def test_what_cannot_be_classified_is_refused(user, run):
    with pytest.raises(SpecInvalid, match="no sample called 'cats'"):
        services.classification_submit(user, request(run, source=FromSample(name="cats")))
    with pytest.raises(NotFound, match="is not a run"):
        services.classification_submit(user, request(run.inputs.get().artifact.made_by))
    Job.objects.filter(pk=run.pk).update(status=Status.RUNNING)
    with pytest.raises(ActionRefused, match="has not ended"):
        services.classification_submit(user, request(run))
    assert not Job.objects.filter(verb="classify").exists()


def test_the_answers_are_there_when_it_has_ended(user, run):
    job = services.classification_submit(user, request(run))
    with pytest.raises(ActionRefused, match="is queued; there is no result yet"):
        evaluations.predictions_reader(job)


def test_it_is_deleted_alone_or_with_its_run(user, run):
    first, second = (services.classification_submit(user, request(run)) for _ in range(2))
    services.job_cancel(user, first.pk)
    assert services.jobs_delete(user, [first.pk]) == 1
    assert services.jobs_delete(user, [run.pk]) == 1
    second.refresh_from_db()
    assert (second.status, second.trashed_at is None) == (Status.CANCELLED, False)
