"""The pages of classifications: the form, the list of a run, progress, the table, the surest of each class."""

from __future__ import annotations

import pytest
from django.utils.html import escape

from engine.store.predictions import Prediction
from jobs.models import Artifact, Job, Upload
from jobs.storage import storage
from tests.dashboard.makers import (
    CLASSES,
    checkpoint_of,
    classification_job,
    import_job,
    training_job,
    write_predictions,
)
from wire.layout import PredictionsDir

pytestmark = pytest.mark.django_db

META = {
    "n_images": 4,
    "n_unreadable": 1,
    "n_with_truth": 3,
    "top1": 2 / 3,
    "top5": None,
    "images_s": 12.5,
    "device": "CPU",
    "source": "<b>photos</b>.zip",
    "checkpoint": {"name": "step-40", "epoch": 4.0, "chosen": "Best val/top1, 91.20 %"},
}
SAMPLE = {"from": "sample", "sample": "digits", "top": "3"}


@pytest.fixture
def run(user):
    return training_job(user, import_job(user), status="succeeded", title="<i>Mine</i>")


@pytest.fixture
def checkpoint(run):
    return checkpoint_of(run)


@pytest.fixture
def classification(user, run, checkpoint):
    job = classification_job(user, run, checkpoint)
    Artifact.objects.filter(made_by=job).update(meta=META)
    return job


def words(answer):
    return " ".join(answer.content.decode().split())


def piece(api, address, target="gallery"):
    return api.get(address, headers={"HX-Request": "true", "HX-Target": target})


# Starting one.


def test_a_classification_begins_by_the_form(api, run, checkpoint):
    assert api.get(f"/runs/{run.pk}/classify/").status_code == 200
    answer = api.post(f"/runs/{run.pk}/classify/", SAMPLE | {"title": "Holiday", "private": "on"})
    job = Job.objects.get(verb="classify")
    assert answer.url == f"/classifications/{job.pk}/"
    assert (job.title, job.private, job.spec["top"], job.part_of_id) == ("Holiday", True, 3, run.pk)
    assert job.spec["checkpoint"]["name"] == "step-40"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"from": "upload"}, "Choose an archive, a folder or files to upload."),
        ({"from": "upload", "upload": "nobody's"}, "There is no upload"),
        ({"from": "sample", "sample": "cats"}, "There is no sample called"),
        (SAMPLE | {"top": "0"}, "A whole number from 1 to 20."),
        (SAMPLE | {"top": "many"}, "A whole number from 1 to 20."),
        (SAMPLE | {"title": "x" * 201}, "this one has 201"),
        (SAMPLE | {"checkpoint": "999"}, "no checkpoint #999"),
        (SAMPLE | {"checkpoint": "<b>"}, "Choose one of the list."),
    ],
)
def test_what_is_wrong_stands_beside_its_field(api, run, checkpoint, data, said):
    answer = api.post(f"/runs/{run.pk}/classify/", data)
    assert answer.status_code == 422
    assert escape(said) in words(answer)
    assert not Job.objects.filter(verb="classify").exists()


def test_folders_and_lists_are_offered_where_the_server_has_some(api, run, checkpoint, settings, tmp_path):
    page = words(api.get(f"/runs/{run.pk}/classify/"))
    assert "Folder on the server" not in page
    settings.IMPORT_ROOTS = [tmp_path]
    (tmp_path / "photos").mkdir()
    assert "Folder on the server" in words(api.get(f"/runs/{run.pk}/classify/"))
    refused = api.post(f"/runs/{run.pk}/classify/", {"from": "lists", "top": "5"})
    assert "Give the list of the images." in words(refused)
    outside = api.post(f"/runs/{run.pk}/classify/", {"from": "folder", "path": "/etc", "top": "5"})
    assert outside.status_code == 422
    assert "/etc" in words(outside)
    api.post(f"/runs/{run.pk}/classify/", {"from": "folder", "path": str(tmp_path / "photos"), "top": "5"})
    assert Job.objects.get(verb="classify").spec["source"]["path"] == str(tmp_path / "photos")


@pytest.mark.parametrize(("status", "said"), [("running", "has not ended"), ("failed", "kept no checkpoint")])
def test_a_run_that_cannot_classify_says_why(api, run, status, said):
    Job.objects.filter(pk=run.pk).update(status=status)
    page = words(api.get(f"/runs/{run.pk}/classify/"))
    assert said in page
    assert "data-classify-form" not in page


def test_earlier_ones_are_listed_and_looked_at_again_while_one_goes_on(api, user, run, checkpoint, classification):
    page = words(api.get(f"/runs/{run.pk}/classify/"))
    assert f"/classifications/{classification.pk}/" in page
    assert "66.67 %" in page
    assert "hx-trigger" not in page
    classification_job(user, run, checkpoint, status="running")
    assert "every 2s" in words(api.get(f"/runs/{run.pk}/classify/"))


def test_the_same_again(api, run, classification):
    page = words(api.get(f"/runs/{run.pk}/classify/?again={classification.pk}"))
    assert 'name="from" value="sample"' in page
    assert escape(classification.title) in page
    assert api.get(f"/runs/{run.pk}/classify/?again={run.pk}").status_code == 404
    Job.objects.filter(pk=classification.pk).update(
        spec=classification.spec | {"source": {"kind": "upload", "path": "../../uploads/gone/data", "name": "x.zip"}}
    )
    assert "is not kept any more" in words(api.get(f"/runs/{run.pk}/classify/?again={classification.pk}"))
    assert not Upload.objects.exists()


# What came of it.


def test_progress_asks_for_itself_until_it_has_ended(api, user, run, checkpoint):
    job = classification_job(user, run, checkpoint, status="running")
    Job.objects.filter(pk=job.pk).update(stage="classify", done=1500, total=300_000)
    address = f"/classifications/{job.pk}/"
    assert "1,500 of 300,000 images" in words(api.get(address))
    assert "Cancel" in words(api.get(address))
    part = piece(api, address, "")
    assert "every 1s" in words(part)
    assert "<html" not in words(part)
    Job.objects.filter(pk=job.pk).update(status="cancelled", ended_at=job.created_at)
    assert piece(api, address, "").headers["HX-Refresh"] == "true"
    assert "Nothing was kept of it." in words(api.get(address))


def test_one_that_failed_says_why(api, user, run, checkpoint):
    job = classification_job(user, run, checkpoint, status="failed")
    Job.objects.filter(pk=job.pk).update(
        ended_at=job.created_at,
        error_code="archive.invalid",
        error_message="x.zip is <b>no</b> archive.",
        error_hint="Zip.",
    )
    page = words(api.get(f"/classifications/{job.pk}/"))
    assert escape("x.zip is <b>no</b> archive.") in page
    assert "Zip." in page


def test_summary_and_table(api, classification):
    page = words(api.get(f"/classifications/{classification.pk}/"))
    for said in (
        "66.67 %",
        "of 3 whose class is known",
        "12.5",
        "step-40",
        escape("<b>photos</b>.zip"),
        "1 unreadable",
    ):
        assert said in page
    assert "1 to 4 of 4" in page
    assert "95.0 %" in page
    assert "Unreadable: is no image" in page
    assert f"/api/v1/classifications/{classification.pk}/images/1" in page
    assert f"/api/v1/classifications/{classification.pk}/images/4" not in page
    assert CLASSES[2] not in page
    assert escape(CLASSES[2]) in page


def names_in(answer):
    page = words(answer)
    return [part.split("</bdi>")[0] for part in page.split('class="wrap class-name"><bdi>')[1:]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a.png", "-b_.png", "c.png", "d%.png"]),
        ("sort=-confidence", ["c.png", "a.png", "-b_.png", "d%.png"]),
        ("sort=confidence", ["-b_.png", "a.png", "c.png", "d%.png"]),
        ("sort=-loss", ["c.png", "-b_.png", "a.png", "d%.png"]),
        ("sort=name", ["-b_.png", "a.png", "c.png", "d%.png"]),
        ("wrong=true", ["c.png"]),
        ("unreadable=true", ["d%.png"]),
        ("label=1", ["-b_.png", "c.png"]),
        ("predicted=0&label=1", ["c.png"]),
        ("q=b_", ["-b_.png"]),
        ("q=nothing", []),
        ("page=99", ["a.png", "-b_.png", "c.png", "d%.png"]),
    ],
)
def test_the_table_is_filtered_and_ordered(api, classification, query, names):
    assert names_in(piece(api, f"/classifications/{classification.pk}/?{query}")) == names
    assert names_in(api.get(f"/classifications/{classification.pk}/?{query}")) == names


def test_the_api_filters_what_cannot_be_read(api, classification):
    address = f"/api/v1/classifications/{classification.pk}/predictions"
    assert [each["name"] for each in api.get(f"{address}?unreadable=true").json()["items"]] == ["d%.png"]
    assert api.get(f"{address}?unreadable=false").json()["total"] == 3


@pytest.mark.parametrize("query", ["sort=size", "label=7", "predicted=x", "view=top&n=7", "view=top&n=x"])
def test_what_an_address_cannot_ask_for(api, classification, query):
    assert api.get(f"/classifications/{classification.pk}/?{query}").status_code == 422


def test_the_surest_of_each_class(api, classification):
    page = words(api.get(f"/classifications/{classification.pk}/?view=top"))
    assert "Classes 1 to 3 of 3" in page
    cats = page[page.index('id="class-0"') : page.index('id="class-1"')]
    assert cats.index("95.0 %") < cats.index("90.0 %")
    assert escape("=dog") in cats, "what is sure and wrong says what it is"
    some = words(piece(api, f"/classifications/{classification.pk}/?view=top&q=BIRD&n=6"))
    assert "Classes 1 to 1 of 1" in some
    assert escape(CLASSES[2]) in some


def test_without_truth_nothing_is_measured(api, classification):
    meta = META | {"n_with_truth": 0, "top1": None}
    Artifact.objects.filter(made_by=classification).update(meta=meta)
    page = words(api.get(f"/classifications/{classification.pk}/"))
    assert "there is nothing to measure" in page
    assert "Loss" not in page
    assert 'name="wrong"' not in page


def test_a_result_that_is_gone_is_said(api, classification):
    PredictionsDir(storage().job(classification.pk).classification_dir).predictions_path.unlink()
    page = words(api.get(f"/classifications/{classification.pk}/"))
    assert "is gone on the server" in page
    assert "66.67 %" in page


def test_many_rows_stay_paged_and_cost_the_same(api, user, run, checkpoint, django_assert_max_num_queries):
    job = classification_job(user, run, checkpoint, status="running")
    rows = (
        Prediction(n, None, None, f"{n:05}.png", n % 3, 0, 0.5, 0.5, 0.7, None, ((0, 0.5), (1, 0.3)))
        for n in range(1, 20_001)
    )
    write_predictions(PredictionsDir(storage().job(job.pk).classification_dir), rows)
    Job.objects.filter(pk=job.pk).update(status="succeeded", ended_at=job.created_at)
    Artifact.objects.create(
        made_by=job, kind="predictions", name="classification", path="artifacts/classification", sha256="e" * 64,
        bytes=9, meta=META,
    )  # fmt: skip
    with django_assert_max_num_queries(12):
        answer = api.get(f"/classifications/{job.pk}/?page=200&sort=-loss")
    assert len(names_in(answer)) == 60
    assert "11,941 to 12,000 of 20,000" in words(answer)
    with django_assert_max_num_queries(12):
        assert api.get(f"/classifications/{job.pk}/?view=top&n=60").status_code == 200


def test_who_may_not_see_or_change_it(client, other_user, user, run, checkpoint, classification):
    client.force_login(other_user)
    page = words(client.get(f"/classifications/{classification.pk}/"))
    assert "Rename or annotate" not in page
    secret = classification_job(user, run, checkpoint, private=True)
    assert client.get(f"/classifications/{secret.pk}/").status_code == 404
    assert f"/classifications/{secret.pk}/" not in words(client.get(f"/runs/{run.pk}/classify/"))
    Job.objects.filter(pk=run.pk).update(private=True)
    for answer in (client.get(f"/runs/{run.pk}/classify/"), client.post(f"/runs/{run.pk}/classify/", SAMPLE)):
        assert answer.status_code == 404
    assert client.get(f"/classifications/{run.pk}/").status_code == 404
    client.logout()
    assert client.get(f"/classifications/{classification.pk}/").status_code == 302
