"""The panel of a run that failed, its buttons, and the page of the devices."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Device, Job, JobInput
from jobs.storage import storage
from jobs.supervision import log_cap
from jobs.supervision.log_cap import MIB, cap
from tests.dashboard.makers import import_job, training_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    dataset = import_job(user)
    job = training_job(user, dataset)
    JobInput.objects.create(job=job, artifact=dataset.artifacts.get(), role="dataset")
    return fail(job)


def fail(job, code="loss.not_finite", status="failed"):
    Job.objects.filter(pk=job.pk).update(
        status=status, error_code=code, error_message="The loss became nan.", error_hint="Lower the rate."
    )
    job.refresh_from_db()
    return job


@pytest.fixture
def gpu(db):
    return Device.objects.create(
        uuid="GPU-1", host="h", kind="cuda", name="GPU 0 (H100)", memory_bytes=80 * 2**30, seen_at=timezone.now()
    )


def post(browser, path, body):
    return browser.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")


def test_the_panel_explains_and_offers_the_usual_fix_first(api, run):
    html = api.get(reverse("run", args=[run.pk])).content.decode()
    assert "The loss left the range of numbers" in html
    assert "The loss became nan." in html
    assert 'value="lower_rate"' in html
    assert "learning rate 0.001 → 0.0001" in html
    assert html.index("btn-primary", html.index("diagnosis-mend")) < html.index('value="lower_rate"')
    assert reverse("job_mend", args=[run.pk]) in html


def test_the_button_starts_a_new_run_and_leads_to_it(api, run):
    answer = api.post(reverse("job_mend", args=[run.pk]), {"fix": "lower_rate"})
    job = Job.objects.get(retry_of=run)
    assert (answer.status_code, answer.url) == (302, reverse("run", args=[job.pk]))
    answer = api.post(reverse("job_mend", args=[run.pk]), {"fix": "lower_rate"}, headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, reverse("run", args=[job.pk]))
    assert api.get(reverse("job_mend", args=[run.pk])).status_code == 405


def test_a_button_of_an_old_page_is_refused_in_words(api, run):
    answer = api.post(reverse("job_mend", args=[run.pk]), {"fix": "smaller_batch"})
    assert answer.status_code == 409
    assert "is no fix for" in answer.content.decode()


def test_the_api_says_the_same_and_does_the_same(api, run):
    found = api.get(f"/api/v1/jobs/{run.pk}/diagnosis").json()
    assert [fix["name"] for fix in found["fixes"]] == ["lower_rate"]
    answer = post(api, f"/jobs/{run.pk}/mend", {"fix": "lower_rate"})
    assert answer.status_code == 201
    assert api.get(f"/api/v1/jobs/{answer.json()['id']}/diagnosis").json() is None
    refused = post(api, f"/jobs/{run.pk}/mend", {"fix": "delete"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "action.refused")
    assert "lower_rate" in refused.json()["error"]["hint"]


def test_what_a_log_says_is_text_on_the_panel(api, run):
    path = storage().job(run.pk).attempt(1).log_path
    path.parent.mkdir(parents=True)
    path.write_text("<script>alert(1)</script>\n")
    path.with_name("stacks.txt").write_text("no step for 3 s\n<b>in forward</b>")
    html = api.get(reverse("run", args=[run.pk])).content.decode()
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "&lt;b&gt;in forward" in html


def test_a_log_of_which_the_middle_is_gone_is_downloaded_without_it(api, run, monkeypatch):
    monkeypatch.setattr(log_cap, "MOST_BYTES", 4 * MIB)
    monkeypatch.setattr(log_cap, "LAST_BYTES", 2 * MIB)
    path = storage().job(run.pk).attempt(1).log_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"first\n" + b"x" * 99_999_990 + b"\nlast\n")
    assert cap(path)
    content = b"".join(api.get(reverse("run_log", args=[run.pk, 1])).streaming_content)
    assert content.startswith(b"first\n")
    assert content.endswith(b"\nlast\n")
    assert len(content) < 4 * MIB
    assert b"left out here" in content


def test_devices_are_shown_to_everybody_and_changed_by_administrators(client, user, admin_user, gpu):
    Device.objects.filter(pk=gpu.pk).update(
        warning="it is slowed down because it is hot",
        strangers=[{"pid": 4242, "name": "<b>python", "memory_bytes": 2**30}],
    )
    client.force_login(user)
    html = client.get(reverse("devices")).content.decode()
    assert "It is slowed down because it is hot." in html
    assert "4242" in html
    assert "&lt;b&gt;python, 1.0 GiB" in html
    assert "Take out of service" not in html
    change = {"uuid": gpu.uuid, "change": "drain", "reason": "new fan"}
    assert client.post(reverse("device_change"), change).status_code == 409
    client.force_login(admin_user)
    assert "Take out of service" in client.get(reverse("devices")).content.decode()
    assert client.post(reverse("device_change"), change, follow=True).status_code == 200
    html = client.get(reverse("devices")).content.decode()
    assert "new fan" in html
    assert "Put back into service" in html
    client.post(reverse("device_change"), {"uuid": gpu.uuid, "change": "restore"})
    gpu.refresh_from_db()
    assert not gpu.drained
    assert client.post(reverse("device_change"), {"uuid": gpu.uuid, "change": "melt"}).status_code == 422


def test_devices_through_the_api(client, user, admin_user, gpu):
    client.force_login(user)
    assert post(client, f"/devices/{gpu.uuid}/drain", {}).status_code == 409
    client.force_login(admin_user)
    (told,) = post(client, f"/devices/{gpu.uuid}/drain", {"reason": "new fan"}).json()
    assert (told["drained"], told["drained_reason"], told["strangers"]) == (True, "new fan", [])
    (told,) = post(client, f"/devices/{gpu.uuid}/restore", {}).json()
    assert not told["drained"]
    assert post(client, "/devices/GPU-none/drain", {}).status_code == 404
