from __future__ import annotations

import json
import shutil

import pytest

from jobs.models import Job
from jobs.storage import storage
from tests.dashboard.downloads import download
from tests.dashboard.makers import PIXEL_PNG, checkpoint_of, classification_job, import_job, training_job

pytestmark = pytest.mark.django_db


def post(browser, path, body):
    return browser.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")


def get(browser, path):
    return browser.get(f"/api/v1{path}")


@pytest.fixture
def run(user):
    return training_job(user, import_job(user), status="succeeded")


@pytest.fixture
def checkpoint(run):
    return checkpoint_of(run)


@pytest.fixture
def classification(user, run, checkpoint):
    return classification_job(user, run, checkpoint)


def test_many_images_are_classified_when_asked(api, run, checkpoint):
    wish = {"run": run.pk, "source": {"kind": "sample", "name": "digits"}, "top": 3, "title": "Mine"}
    answer = post(api, "/classifications", wish)
    assert answer.status_code == 201
    told = answer.json()
    assert (told["verb"], told["status"], told["title"], told["part_of"]["id"]) == (
        "classify",
        "queued",
        "Mine",
        run.pk,
    )
    assert get(api, f"/classifications/{told['id']}").json()["id"] == told["id"]
    assert [row["id"] for row in get(api, f"/trainings/{run.pk}/classifications").json()] == [told["id"]]
    assert get(api, f"/classifications/{told['id']}/predictions").status_code == 409


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"run": 999}, 404, "#999"),
        ({"checkpoint": 999}, 404, "no checkpoint #999"),
        ({"source": {"kind": "sample", "name": "cats"}}, 400, "cats"),
        ({"source": {"kind": "upload", "upload": "nobody's"}}, 404, "nobody's"),
        ({"source": {"kind": "folder", "path": "/etc"}}, 409, "/etc"),
        ({"source": {"kind": "net"}}, 422, "source"),
        ({"top": 0}, 422, "top"),
        ({"top": 21}, 422, "top"),
        ({"speed": "fast"}, 422, "speed"),
    ],
)
def test_what_cannot_be_classified_is_refused(api, run, checkpoint, changes, status, words):
    wish = {"run": run.pk, "source": {"kind": "sample", "name": "digits"}} | changes
    answer = post(api, "/classifications", wish)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["hint"]
    assert not Job.objects.filter(verb="classify").exists()


def test_answers_are_filtered_sorted_and_told(api, classification):
    page = get(api, f"/classifications/{classification.pk}/predictions?sort=-confidence").json()
    assert page["total"] == 4
    assert [item["name"] for item in page["items"]] == ["c.png", "a.png", "-b_.png", "d%.png"]
    assert page["items"][0]["split"] is None
    wrong = get(api, f"/classifications/{classification.pk}/predictions?wrong=true&label=1&predicted=0").json()
    assert [item["name"] for item in wrong["items"]] == ["c.png"]
    for query in ("limit=1001", "sort=x", f"q={'x' * 201}", "label=-2"):
        assert get(api, f"/classifications/{classification.pk}/predictions?{query}").status_code == 422


def test_the_surest_images_of_a_class(api, classification):
    top = get(api, f"/classifications/{classification.pk}/top?label=0&n=2").json()
    assert [item["name"] for item in top] == ["c.png", "a.png"]
    assert get(api, f"/classifications/{classification.pk}/top?label=17").json() == []
    for query in ("label=-1", "label=0&n=0", "label=0&n=101"):
        assert get(api, f"/classifications/{classification.pk}/top?{query}").status_code == 422


@pytest.mark.django_db(transaction=True)
def test_a_table_that_no_spreadsheet_runs(user, classification):
    answer, (_, *rows) = download(user, f"/classifications/{classification.pk}/predictions.csv?label=1")
    assert f'filename="classification-{classification.pk}.csv"' in answer.headers["Content-Disposition"]
    assert [row[2:5] for row in rows] == [["'-b_.png", "'=dog", "'=dog"], ["c.png", "'=dog", "cat"]]


def test_a_small_picture_is_kept_by_the_browser_and_never_taken_for_a_page(api, classification):
    answer = get(api, f"/classifications/{classification.pk}/images/1")
    assert (answer.status_code, answer.content) == (200, PIXEL_PNG)
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"].startswith("private, ")
    for number in (4, 99, 10**30):
        refused = get(api, f"/classifications/{classification.pk}/images/{number}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")


def test_nothing_is_told_of_another_s_private_classification(api, run, checkpoint, other_user):
    secret = classification_job(other_user, run, checkpoint, private=True)
    assert get(api, f"/trainings/{run.pk}/classifications").json() == []
    for path in ("", "/predictions", "/predictions.csv", "/top?label=0", "/images/1"):
        assert get(api, f"/classifications/{secret.pk}{path}").status_code == 404
    assert get(api, f"/classifications/{run.pk}").status_code == 404


def test_answers_whose_file_is_gone_are_missed_by_name(api, classification):
    shutil.rmtree(storage().job(classification.pk).path)
    for path in ("/predictions", "/predictions.csv", "/top?label=0", "/images/1"):
        answer = get(api, f"/classifications/{classification.pk}{path}")
        assert (answer.status_code, "is gone" in answer.json()["error"]["message"]) == (404, True)
