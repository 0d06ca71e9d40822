"""From a folder of images to a report, with the real engine: import, training, and what follows from it."""

from __future__ import annotations

import pytest

from jobs import evaluations, selectors, services
from jobs.models import Attempt, Job
from jobs.requests import ClassificationRequest, ImportRequest, TrainingRequest
from jobs.states import Status
from tests.flow.running import log_of, until_ended, until_quiet
from tests.kits.trees import class_tree
from wire.specs import Choice, FromFolder, ImportOptions, TrainOptions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def trained(user, redis_server, settings, tmp_path):
    """A run on two classes of ten images, with all that follows from it."""

    def make(**splits):
        settings.IMPORT_ROOTS = [tmp_path]
        tree = class_tree(tmp_path / "pets", {"cat": 10, "dog": 10}, size=(24, 20))
        wish = ImportRequest(name="pets", source=FromFolder(path=str(tree)), options=ImportOptions(**splits))
        dataset = until_ended(services.import_submit(user, wish))
        assert dataset.status == Status.SUCCEEDED, log_of(dataset)
        run = services.training_submit(
            user,
            TrainingRequest(
                dataset=dataset.pk,
                model=Choice(name="lenet5"),
                options=TrainOptions(epochs=2, batch_size=8, image_px=32),
                devices=["cpu"],
            ),
        )
        until_ended(run)
        assert run.status == Status.SUCCEEDED, log_of(run)
        until_quiet()
        return run

    return make


def test_a_training_is_followed_by_its_evaluation(user, api, trained):
    run = trained(val_pct=20, test_pct=20)
    (told,) = api.get(f"/api/v1/trainings/{run.pk}/evaluations").json()
    evaluation = Job.objects.get(pk=told["id"])
    assert told["status"] == "succeeded", log_of(evaluation)
    assert told["report_meta"]
    assert not Attempt.objects.filter(ended_at=None).exists()

    report = api.get(f"/api/v1/evaluations/{evaluation.pk}").json()
    assert (report["run"], report["dataset_name"]) == (run.pk, "pets")
    assert report["checkpoint"]["name"] == f"step-{run.best_step}"
    assert report["checkpoint"]["chosen"] == f"Best val/top1, {run.best_value:.2f} %"
    assert [(split["split"], split["n_images"]) for split in report["splits"]] == [("val", 4), ("test", 4)]
    # The same images, the same way: what the training measured is what the evaluation finds.
    assert 100 * report["splits"][0]["top1"] == pytest.approx(run.best_value, abs=1e-6)

    page = api.get(f"/api/v1/evaluations/{evaluation.pk}/predictions?split=val&sort=-loss").json()
    assert (page["total"], page["classes"]) == (4, ["cat", "dog"])
    assert sum(not item["wrong"] for item in page["items"]) / 4 == pytest.approx(report["splits"][0]["top1"])
    assert page["items"][0]["loss"] == max(item["loss"] for item in page["items"])

    on_train = until_ended(services.evaluation_submit(user, run.pk, splits=("train",)))
    assert on_train.status == Status.SUCCEEDED, log_of(on_train)
    assert [split.split for split in evaluations.report_of(on_train).splits] == ["train"]
    until_quiet()


def test_without_validation_images_the_last_checkpoint_is_evaluated_on_the_test_images(api, trained):
    run = trained(val_pct=0, test_pct=20)
    (told,) = api.get(f"/api/v1/trainings/{run.pk}/evaluations").json()
    assert told["status"] == "succeeded", log_of(Job.objects.get(pk=told["id"]))
    report = api.get(f"/api/v1/evaluations/{told['id']}").json()
    assert [split["split"] for split in report["splits"]] == ["test"]
    assert report["checkpoint"]["name"] == f"step-{run.total}"
    assert report["checkpoint"]["chosen"] == "The last one: there were no validation images to choose by"


def test_without_any_image_to_evaluate_on_nothing_is_submitted_and_images_are_classified_all_the_same(
    user, api, trained, tmp_path
):
    run = trained(val_pct=0, test_pct=0)
    assert api.get(f"/api/v1/trainings/{run.pk}/evaluations").json() == []
    assert "neither validation nor test images" in evaluations.why_not_evaluated(run)

    (tmp_path / "pets" / "cat" / "notes.txt").write_text("no image")
    wish = ClassificationRequest(run=run.pk, source=FromFolder(path=str(tmp_path / "pets")), top=2)
    job = until_ended(services.classification_submit(user, wish))
    assert job.status == Status.SUCCEEDED, log_of(job)
    assert selectors.job_summary(job, user).devices == []
    page = api.get(f"/api/v1/classifications/{job.pk}/predictions?limit=100").json()
    read = [item for item in page["items"] if not item["error"]]
    assert (len(read), {item["label_name"] for item in read}) == (20, {"cat", "dog"})
    assert all(len(item["top"]) == 2 for item in read)
    picture = api.get(f"/api/v1/classifications/{job.pk}/images/{read[0]['id']}")
    assert (picture.status_code, picture.headers["X-Content-Type-Options"]) == (200, "nosniff")
    until_quiet()
