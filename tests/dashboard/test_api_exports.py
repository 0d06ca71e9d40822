from __future__ import annotations

import json

import pytest
from django.test import Client

from jobs.models import Job, JobInput
from jobs.services import token_create
from tests.dashboard.makers import checkpoint_of, import_job, training_job
from tests.kits.exported import LOST, export_job

pytestmark = pytest.mark.django_db

WISH = {"targets": [{"backend": {"name": "onnx"}, "precision": "fp16"}, {"backend": {"name": "pytorch"}}]}


def post(browser, path, body, **more):
    return browser.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", **more)


def get(browser, path):
    return browser.get(f"/api/v1{path}")


def problem(answer):
    return answer.status_code, answer.json()["error"]["code"]


@pytest.fixture
def run(user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    return run


@pytest.fixture
def checkpoint(run):
    made = checkpoint_of(run)
    # The digits that its dataset has.
    made.meta |= {"classes": ["0", "1"], "n_classes": 2}
    made.save()
    return made


def test_a_run_is_exported_to_several_targets_at_once(api, run, checkpoint):
    answer = post(api, f"/trainings/{run.pk}/exports", WISH)
    assert answer.status_code == 201
    first, second = answer.json()
    assert (first["is_new"], first["export"]["title"]) == (True, f"ONNX FP16 of {run.title}")
    assert (first["export"]["status"], first["export"]["outcome"]) == ("queued", "")
    assert first["export"]["checkpoint"]["name"] == "step-40"
    assert second["export"]["backend_label"] == "PyTorch weights"
    again = post(api, f"/trainings/{run.pk}/exports", WISH).json()
    assert [(each["export"]["id"], each["is_new"]) for each in again] == [
        (first["export"]["id"], False), (second["export"]["id"], False)
    ]  # fmt: skip
    listed = [row["id"] for row in get(api, f"/trainings/{run.pk}/exports").json()]
    assert listed == [second["export"]["id"], first["export"]["id"]]
    assert {row["id"] for row in get(api, f"/jobs?verb=export&part_of={run.pk}").json()} == set(listed)
    assert not {row["id"] for row in get(api, "/jobs").json()} & set(listed)


def test_of_a_run_that_trains_it_waits(api, run, checkpoint):
    Job.objects.filter(pk=run.pk).update(status="running")
    (started, _) = post(api, f"/trainings/{run.pk}/exports", WISH).json()
    assert (started["export"]["status"], started["export"]["checkpoint"]) == ("waiting", None)
    assert started["export"]["wait_reason"] == f"Waiting for the training {run.title} to end"


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        ({}, 422, "request.invalid"),
        ({"targets": []}, 422, "request.invalid"),
        (WISH | {"surprise": 1}, 422, "request.invalid"),
        ({"targets": [{"backend": {"name": "onnx"}, "precision": "int4"}]}, 422, "request.invalid"),
        (WISH | {"calibration": {"n_images": 0}}, 422, "request.invalid"),
        (WISH | {"devices": ["GPU-9"]}, 400, "spec.invalid"),
        ({"targets": [{"backend": {"name": "abacus"}}]}, 400, "spec.invalid"),
        ({"targets": [{"backend": {"name": "pytorch"}, "precision": "fp16"}]}, 400, "spec.invalid"),
        (WISH | {"checkpoint": 10**6}, 404, "not_found"),
        (WISH | {"dataset": 10**6}, 404, "not_found"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(api, run, checkpoint, wish, status, code):
    assert problem(post(api, f"/trainings/{run.pk}/exports", wish)) == (status, code)
    assert not Job.objects.filter(verb="export").exists()


def test_the_report_of_an_export(api, user, run, checkpoint):
    report = get(api, f"/exports/{export_job(user, run, checkpoint, precision='int8', outcome='failed').pk}").json()
    assert report["verdict"] == {"outcome": "failed", "reasons": [LOST]}
    assert [file["path"] for file in report["files"]] == ["model.onnx", "golden/0.png", "golden/1.png"]
    assert report["checkpoint"]["name"] == "step-40"
    refused = export_job(user, run, checkpoint, status="failed", error_hint="Keep it in float.")
    answer = get(api, f"/exports/{refused.pk}")
    assert problem(answer) == (409, "action.refused")
    assert answer.json()["error"]["hint"] == "Keep it in float."
    assert problem(get(api, f"/exports/{run.pk}")) == (404, "not_found")


def test_answering_for_an_export(api, user, run, checkpoint):
    path = f"/exports/{export_job(user, run, checkpoint, outcome='failed').pk}/override"
    row = post(api, path, {"reason": "Good enough"}).json()
    assert (row["override"]["by"], row["override"]["reason"]) == (user.username, "Good enough")
    assert row["is_deliverable"]
    row = api.delete(f"/api/v1{path}").json()
    assert (row["override"], row["is_deliverable"]) == (None, False)
    assert problem(post(api, path, {"reason": ""})) == (422, "request.invalid")
    assert problem(post(api, path, {"reason": "  "})) == (400, "spec.invalid")
    passed = export_job(user, run, checkpoint)
    assert problem(post(api, f"/exports/{passed.pk}/override", {"reason": "why"})) == (409, "action.refused")


def test_another_person_does_not_answer_for_it(other_user, run, checkpoint):
    job = export_job(other_user, run, checkpoint, outcome="failed")
    browser = Client()
    browser.force_login(other_user)
    assert problem(post(browser, f"/exports/{job.pk}/override", {"reason": "why"})) == (409, "action.refused")
    answer = browser.delete(f"/api/v1/exports/{job.pk}/override")
    assert problem(answer) == (409, "action.refused")


def test_a_private_export_is_not_there_for_others(api, run, checkpoint, other_user):
    secret = export_job(other_user, run, checkpoint, private=True, outcome="failed")
    assert get(api, f"/trainings/{run.pk}/exports").json() == []
    assert get(api, f"/exports/{secret.pk}").status_code == 404
    assert post(api, f"/exports/{secret.pk}/override", {"reason": "why"}).status_code == 404
    Job.objects.filter(pk=run.pk).update(private=True, owner=other_user)
    assert get(api, f"/trainings/{run.pk}/exports").status_code == 404
    assert post(api, f"/trainings/{run.pk}/exports", WISH).status_code == 404


def test_a_token_that_may_only_read_exports_nothing(user, run, checkpoint):
    _, secret = token_create(user, "reader", scope="read")
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get(f"/api/v1/trainings/{run.pk}/exports", headers=bearer).status_code == 200
    assert post(Client(), f"/trainings/{run.pk}/exports", WISH, headers=bearer).status_code == 403


def test_what_there_is_to_export_to(api):
    backends = {each["name"]: each for each in get(api, "/backends").json()}
    assert list(backends) == ["pytorch", "onnx", "tensorrt_rtx"]
    assert backends["onnx"]["precisions"] == ["fp32", "fp16", "int8"]
    assert (backends["onnx"]["missing"], backends["onnx"]["needs_cuda"]) == ([], False)
    assert "compute_capabilities" in backends["tensorrt_rtx"]["options"]["properties"]
    assert backends["tensorrt_rtx"]["needs_cuda"]
