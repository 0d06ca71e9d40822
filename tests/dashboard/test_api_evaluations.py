from __future__ import annotations

import json
import shutil

import pytest
from django.test import Client

from jobs.models import Job, JobInput
from jobs.services import token_create
from jobs.storage import storage
from tests.dashboard.downloads import download
from tests.dashboard.makers import checkpoint_of, evaluation_job, import_job, training_job

pytestmark = pytest.mark.django_db


def post(browser, path, body, **more):
    return browser.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", **more)


def get(browser, path):
    return browser.get(f"/api/v1{path}")


@pytest.fixture
def run(user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    return run


@pytest.fixture
def checkpoint(run):
    return checkpoint_of(run)


@pytest.fixture
def evaluation(user, run, checkpoint):
    return evaluation_job(user, run, checkpoint)


def test_a_run_is_evaluated_when_asked(api, user, run, checkpoint):
    other = import_job(user, title="Other digits")
    made = other.artifacts.get()
    made.meta = {"counts": {"train": 1, "val": 3}, "classes": ["cat"], "n_classes": 1}
    made.save()
    answer = post(api, f"/trainings/{run.pk}/evaluations", {"dataset": other.pk, "splits": ["val"]})
    assert answer.status_code == 201
    told = answer.json()
    assert (told["verb"], told["status"], told["part_of"]["id"]) == ("evaluate", "queued", run.pk)
    assert told["dataset"] == {"id": other.pk, "title": "Other digits"}
    assert Job.objects.get(pk=told["id"]).spec["splits"] == ["val"]
    assert [row["id"] for row in get(api, f"/trainings/{run.pk}/evaluations").json()] == [told["id"]]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"checkpoint": 999}, 404, "no checkpoint #999"),
        ({"dataset": 999}, 404, "#999"),
        ({"splits": ["test"]}, 400, "no images of the split test"),
        ({"splits": []}, 422, "splits"),
        ({"splits": ["verify"]}, 422, "splits"),
        ({"split": "val"}, 422, "split"),
        ({}, 400, "shares no class"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(api, run, checkpoint, body, status, words):
    if body:
        checkpoint.meta = checkpoint.meta | {"classes": ["0"], "n_classes": 1}
        checkpoint.save()
    answer = post(api, f"/trainings/{run.pk}/evaluations", body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["hint"]
    assert not Job.objects.filter(verb="evaluate").exists()


def test_a_run_that_goes_on_is_not_evaluated(api, user, run, checkpoint):
    Job.objects.filter(pk=run.pk).update(status="running")
    answer = post(api, f"/trainings/{run.pk}/evaluations", {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "action.refused")


def test_the_report_names_split_checkpoint_and_dataset(api, run, evaluation):
    report = get(api, f"/evaluations/{evaluation.pk}").json()
    assert [split["split"] for split in report["splits"]] == ["val", "test"]
    assert (report["run"], report["dataset_name"]) == (run.pk, "Digits")
    assert report["checkpoint"]["chosen"] == "Best val/top1, 91.20 %"
    assert report["classes"][1] == "=dog"
    (listed,) = get(api, f"/trainings/{run.pk}/evaluations").json()
    assert listed["report_meta"]["splits"]["val"]["top1"] == 0.5


def test_a_report_that_is_not_there_says_why(api, user, run, checkpoint, evaluation):
    waiting = evaluation_job(user, run, checkpoint, status="queued")
    answer = get(api, f"/evaluations/{waiting.pk}")
    assert (answer.status_code, "no result yet" in answer.json()["error"]["message"]) == (409, True)
    shutil.rmtree(storage().job(evaluation.pk).path)
    for path in ("", "/predictions", "/predictions.csv"):
        answer = get(api, f"/evaluations/{evaluation.pk}{path}")
        assert (answer.status_code, "is gone" in answer.json()["error"]["message"]) == (404, True)
    assert get(api, f"/evaluations/{run.pk}").status_code == 404


def names(api, evaluation, query=""):
    return [item["name"] for item in get(api, f"/evaluations/{evaluation.pk}/predictions?{query}").json()["items"]]


def test_predictions_are_filtered_sorted_and_paged(api, evaluation):
    page = get(api, f"/evaluations/{evaluation.pk}/predictions?split=val&limit=2&offset=1").json()
    assert page["total"] == 4
    assert page["classes"] == ["cat", "=dog", "<b>bird</b>"]
    assert [item["name"] for item in page["items"]] == ["-b_.png", "c.png"]
    told = page["items"][1]
    assert (told["label_name"], told["predicted_name"], told["wrong"], told["split"]) == ("=dog", "cat", True, "val")
    assert (told["confidence"], told["truth_probability"], told["loss"], told["sample"]) == (0.95, 0.01, 4.6, 2)
    assert told["top"][0] == {"label": 0, "name": "cat", "probability": 0.95}
    assert names(api, evaluation, "wrong=true&sort=-loss") == ["c.png", "c.png"]
    assert names(api, evaluation, "split=test&label=1&predicted=0") == ["c.png"]
    assert names(api, evaluation, "split=val&wrong=false&sort=-confidence") == ["a.png", "-b_.png"]
    assert names(api, evaluation, "split=val&q=%25") == ["d%.png"]
    assert names(api, evaluation, "q=_") == ["-b_.png"] * 2
    assert names(api, evaluation, "label=99999999999999999999") == []
    broken = get(api, f"/evaluations/{evaluation.pk}/predictions?q=d&split=val").json()["items"][0]
    assert (broken["predicted"], broken["error"], broken["wrong"], broken["top"]) == (None, "is no image", None, [])


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "offset=-1", "sort=colour", "split=verify", "label=-1", "wrong=maybe", f"q={'x' * 201}"],
)
def test_what_predictions_do_not_know_is_refused(api, evaluation, query):
    answer = get(api, f"/evaluations/{evaluation.pk}/predictions?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "request.invalid")


@pytest.mark.django_db(transaction=True)
def test_predictions_as_a_table_that_no_spreadsheet_runs(user, evaluation):
    answer, (header, *rows) = download(user, f"/evaluations/{evaluation.pk}/predictions.csv?split=val&sort=name")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert f'filename="evaluation-{evaluation.pk}.csv"' in answer.headers["Content-Disposition"]
    assert header[:5] == ["id", "split", "name", "truth", "predicted"]
    assert header[-2:] == ["top3", "top3_probability"]
    assert [row[2] for row in rows] == ["'-b_.png", "a.png", "c.png", "d%.png"]
    assert rows[0][3:5] == ["'=dog", "'=dog"]
    assert rows[2][10:] == ["cat", "0.95", "'=dog", "0.05", "", ""]
    assert rows[3][4:] == [*[""] * 5, "is no image", *[""] * 6]


def test_a_private_evaluation_is_not_there_for_others(api, run, checkpoint, other_user):
    secret = evaluation_job(other_user, run, checkpoint, private=True)
    assert get(api, f"/trainings/{run.pk}/evaluations").json() == []
    for path in ("", "/predictions", "/predictions.csv"):
        assert get(api, f"/evaluations/{secret.pk}{path}").status_code == 404
    Job.objects.filter(pk=run.pk).update(private=True, owner=other_user)
    assert get(api, f"/trainings/{run.pk}/evaluations").status_code == 404
    assert post(api, f"/trainings/{run.pk}/evaluations", {}).status_code == 404


def test_a_token_that_may_only_read_starts_nothing(user, run, checkpoint):
    _, secret = token_create(user, "reader", scope="read")
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get(f"/api/v1/trainings/{run.pk}/evaluations", headers=bearer).status_code == 200
    assert post(Client(), f"/trainings/{run.pk}/evaluations", {}, headers=bearer).status_code == 403
    assert Client().get(f"/api/v1/trainings/{run.pk}/evaluations").status_code == 401


def test_runs_and_datasets_are_listed_without_their_parts(api, run, evaluation):
    listed = lambda query="": {row["id"] for row in get(api, f"/jobs?{query}").json()}  # noqa: E731
    assert evaluation.pk not in listed()
    assert listed("verb=evaluate") == listed(f"part_of={run.pk}") == {evaluation.pk}
    assert listed("verb=classify") == set()
    assert get(api, f"/jobs/{evaluation.pk}").json()["part_of"] == {"id": run.pk, "title": run.title}
