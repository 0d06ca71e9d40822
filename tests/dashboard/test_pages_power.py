"""Pause, resume, start again and the trash, as buttons and pages."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from jobs.models import Job, Transition
from jobs.services import jobs_delete
from tests.dashboard.makers import import_job, training_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    return training_job(user, import_job(user))


def become(job, status, **columns):
    Job.objects.filter(pk=job.pk).update(status=status, **columns)


def actions(api, run):
    html = api.get(reverse("run_regions", args=[run.pk])).content.decode()
    region = html.split('data-region="actions"', 1)[1].split("data-region=", 1)[0]
    return set(re.findall(r"hx-post=\"/jobs/\d+/([a-z-]+)\"", region))


@pytest.mark.parametrize(
    ("status", "offered"),
    [
        ("waiting", set()),
        ("queued", {"pause"}),
        ("starting", {"pause"}),
        ("running", {"pause"}),
        ("pausing", set()),
        ("paused", {"resume"}),
        ("cancelling", set()),
        ("succeeded", {"retry"}),
        ("failed", {"retry"}),
        ("errored", {"retry"}),
        ("cancelled", {"retry"}),
    ],
)
def test_a_run_offers_what_it_can_do_now(api, run, status, offered):
    become(run, status)
    assert actions(api, run) == offered


def test_a_run_without_a_checkpoint_that_can_be_read_offers_to_begin_again(api, run):
    become(run, "failed", error_code="checkpoint.none_intact", error_message="None can be read.")
    assert "Begin again from step 0" in api.get(reverse("run", args=[run.pk])).content.decode()
    answer = api.post(f"/api/v1/jobs/{run.pk}/begin-anew")
    assert (answer.status_code, answer.json()["retry_of"]) == (201, run.pk)


def test_starting_again_leads_to_the_new_run(api, run):
    become(run, "failed")
    answer = api.post(reverse("job_retry", args=[run.pk]), headers={"HX-Request": "true"})
    assert answer.headers["HX-Redirect"] == reverse("run", args=[Job.objects.get(retry_of=run).pk])


def test_others_may_only_start_it_again_for_themselves(client, other_user, run):
    client.force_login(other_user)
    assert actions(client, run) == set()
    become(run, "failed")
    assert actions(client, run) == {"retry"}
    assert client.post(reverse("job_pause", args=[run.pk])).status_code == 409


def test_a_button_leaves_the_page_and_tells_it_which_job_changed(api, run):
    answer = api.post(reverse("job_pause", args=[run.pk]), headers={"HX-Request": "true"})
    assert (answer.status_code, json.loads(answer.headers["HX-Trigger"])) == (204, {"fovea:changed": {"job": run.pk}})
    run.refresh_from_db()
    assert run.status == "pausing"
    become(run, "paused")
    answer = api.post(reverse("job_resume", args=[run.pk]))
    assert (answer.status_code, answer.url) == (302, reverse("run", args=[run.pk]))


def test_the_home_row_says_why_it_is_paused_and_offers_to_resume(api, run):
    become(run, "paused", wait_reason="The disk was full. 3 GB are missing.")
    html = api.get("/?status=paused").content.decode()
    assert "The disk was full. 3 GB are missing." in html
    assert reverse("job_resume", args=[run.pk]) in html
    assert "data-live" not in html
    become(run, "running")
    html = api.get("/").content.decode()
    assert reverse("job_pause", args=[run.pk]) in html


def test_the_api_tells_what_a_paused_run_waits_for(api, run):
    become(run, "paused", resumes_when="disk")
    assert api.get(f"/api/v1/jobs/{run.pk}").json()["resumes_when"] == "disk"
    become(run, "paused", resumes_when="")
    assert api.post(f"/api/v1/jobs/{run.pk}/resume").json()["status"] == "queued"
    assert api.post(f"/api/v1/jobs/{run.pk}/pause").json()["status"] == "paused"
    assert api.post(f"/api/v1/jobs/{run.pk}/cancel").json()["status"] == "cancelled"
    again = api.post(f"/api/v1/jobs/{run.pk}/retry")
    assert (again.status_code, again.json()["retry_of"]) == (201, run.pk)
    assert api.post(f"/api/v1/jobs/{run.pk}/pause").json()["error"]["code"] == "action.refused"
    assert Transition.objects.filter(job=run).count() == 3


@pytest.fixture
def deleted(run, user):
    become(run, "failed")
    jobs_delete(user, [run.pk])
    return run


def test_the_trash_shows_what_goes_when_and_brings_it_back(api, deleted):
    html = api.get(reverse("trash")).content.decode()
    for words in (deleted.title, "by ada", "Restore", "Delete now", "in 6\xa0days"):
        assert words in html
    answer = api.post(reverse("trash_restore"), {"ids": [deleted.pk]}, follow=True)
    assert "It is back." in answer.content.decode()
    assert "The trash is empty." in answer.content.decode()
    assert api.get(reverse("run", args=[deleted.pk])).status_code == 200


def test_removing_for_good_asks_first(api, deleted):
    address = reverse("trash_remove")
    assert "can be restored after that" in api.get(f"{address}?ids={deleted.pk}").content.decode()
    assert Job.objects.filter(pk=deleted.pk).exists()
    answer = api.post(address, {"ids": [deleted.pk]}, headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, reverse("trash"))
    assert not Job.objects.filter(pk=deleted.pk).exists()


def test_what_stands_in_the_way_is_said_on_the_page(api, deleted):
    for name in ("trash_restore", "trash_remove"):
        answer = api.post(reverse(name), {"ids": [999]}, follow=True)
        assert "There is no #999 in the trash." in answer.content.decode()


def test_the_trash_by_the_api(api, deleted):
    (row,) = api.get("/api/v1/trash").json()
    assert (row["id"], row["trashed_by"]) == (deleted.pk, "ada")
    wish = {"ids": [deleted.pk]}
    restored = api.post("/api/v1/trash/restore", wish, content_type="application/json")
    assert restored.json() == {"n_restored": 1}
    assert api.delete(f"/api/v1/jobs/{deleted.pk}").status_code == 204
    removed = api.post("/api/v1/trash/remove", wish, content_type="application/json")
    assert removed.json() == {"n_removed": 1}
    assert api.post("/api/v1/trash/restore", wish, content_type="application/json").status_code == 404
