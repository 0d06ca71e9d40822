"""Networks tried over the API, with the real service behind it."""

from __future__ import annotations

import base64
import json
import shutil

import pytest
import torch._inductor.utils  # noqa: F401 - sets a variable while it is imported: not inside a test
from django.core.files.uploadedfile import SimpleUploadedFile

from jobs.models import Artifact
from jobs.services import token_create
from jobs.storage import storage
from tests.dashboard.makers import import_job, training_job
from tests.kits.exported import export_job
from tests.kits.serving import picture_bytes, write_checkpoint, write_dataset, write_onnx_export
from wire.layout import ExportDir
from wire.serving import MAX_IMAGES

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("serve")]


def made_checkpoint(run, step, **options):
    path = f"artifacts/checkpoints/step-{step}.pt"
    sha256 = write_checkpoint(storage().job(run.pk).resolve(path), **options)
    return Artifact.objects.create(
        made_by=run,
        kind="checkpoint",
        name=f"step-{step}",
        path=path,
        sha256=sha256,
        bytes=1,
        meta={"step": step, "epoch": step / 10, "epochs_done": 1},
    )


@pytest.fixture
def dataset(user):
    job = import_job(user)
    write_dataset(storage().job(job.pk).dataset_dir, [("train", 0, picture_bytes(8, 8)), ("val", 1, b"damaged")])
    return job


@pytest.fixture
def run(user, dataset):
    """It is being trained."""
    return training_job(user, dataset)


@pytest.fixture
def checkpoint(run):
    return made_checkpoint(run, 10)


def image(data=None, name="cat.png"):
    return SimpleUploadedFile(name, picture_bytes() if data is None else data, "image/png")


def post(browser, run, action, *files, **query):
    return browser.post(f"/api/v1/trainings/{run.pk}/{action}", {"files": list(files)}, query_params=query)


def post_sample(browser, run, what, dataset, sample=1, **query):
    body = json.dumps({"sample": {"dataset": dataset.pk, "id": sample}})
    path = f"/api/v1/trainings/{run.pk}/{what}"
    return browser.post(path, body, content_type="application/json", query_params=query)


def test_files_are_tried_while_it_trains(api, run, checkpoint):
    answer = post(api, run, "predict", image(), image(b"no image", "worse.jpg"), image(name="<b>.png"), top=2)

    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert body["checkpoint"] == {"id": checkpoint.pk, "name": "step-10", "step": 10, "epoch": 1.0}
    first, second, third = body["images"]
    assert [guess["name"] for guess in first["top"]] == [guess["name"] for guess in third["top"]]
    assert len(first["top"]) == 2
    assert base64.b64decode(first["seen"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert (first["error"], first["width"], first["height"]) == (None, 40, 30)
    assert third["name"] == "<b>.png"
    assert second["error"]["code"] == "image.invalid"
    assert "'worse.jpg'" in second["error"]["message"]


def test_a_sample_of_the_dataset(api, run, checkpoint, dataset):
    (told,) = post_sample(api, run, "predict", dataset).json()["images"]
    (damaged,) = post_sample(api, run, "predict", dataset, 2).json()["images"]

    assert told["name"] == "class-0/0.png"
    assert damaged["error"]["code"] == "image.invalid"


def test_the_best_is_taken_then_the_newest_or_the_one_that_is_named(api, run):
    early, late = made_checkpoint(run, 10), made_checkpoint(run, 20)

    def used(**query):
        return post(api, run, "predict", image(), **query).json()["checkpoint"]["id"]

    assert used() == late.pk
    assert used(checkpoint=early.pk) == early.pk
    run.best_series, run.best_step, run.best_value = "val/top1", 10, 90.0
    run.save()
    assert used() == early.pk


def test_why(api, run, checkpoint, dataset):
    body = post_sample(api, run, "explain", dataset, label=2).json()

    assert (body["label"], body["class_name"]) == (2, "class-2")
    assert body["overlay"].startswith("data:image/png;base64,")
    assert max(map(max, body["heat"])) in (0, 1)
    assert post(api, run, "explain", image()).status_code == 200


def test_layers_and_tiles(api, run, checkpoint):
    body = post(api, run, "layers", image()).json()
    first = body["layers"][0]

    assert first["type"] == "Conv2d"
    assert sum(first["activations"]["histogram"]) > 0
    for what in ("activations", "weights"):
        tiles = post(api, run, "layer-tiles", image(), layer=first["name"], what=what)
        assert (tiles.status_code, tiles["Content-Type"]) == (200, "image/png")
    assert post(api, run, "layer-tiles", image(), layer="head").status_code == 404


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def exported(user, run, checkpoint):
    """An ONNX export of the checkpoint whose model is a true one."""
    job = export_job(user, run, checkpoint)
    folder = storage().job(job.pk).export_dir
    shutil.rmtree(folder)
    path = storage().job(run.pk).resolve(checkpoint.path)
    Artifact.objects.filter(made_by=job).update(sha256=write_onnx_export(ExportDir(folder), path))
    return job


def test_an_export_answers_as_its_checkpoint_does(api, user, run, checkpoint, dataset):
    export = exported(user, run, checkpoint)

    body = post(api, run, "predict", image(), image(b"no image"), export=export.pk).json()
    trained = post(api, run, "predict", image(), checkpoint=checkpoint.pk).json()

    assert body["checkpoint"] is None
    assert body["export"] == {
        "id": export.pk, "name": "ONNX FP32", "backend": "onnx", "precision": "fp32", "outcome": "passed",
        "checkpoint": "step-10",
    }  # fmt: skip
    shares = [guess["probability"] for guess in trained["images"][0]["top"]]
    assert [guess["probability"] for guess in body["images"][0]["top"]] == pytest.approx(shares, abs=1e-5)
    assert body["images"][0]["seen"] == trained["images"][0]["seen"]
    assert body["images"][1]["error"]["code"] == "image.invalid"
    assert post_sample(api, run, "predict", dataset, export=export.pk).json()["images"][0]["top"]


def test_exports_that_cannot_be_asked(api, client, user, other_user, run, checkpoint, dataset):
    export = export_job(user, run, checkpoint)
    assert code_of(post(api, run, "predict", image(), export=export.pk, checkpoint=checkpoint.pk))[0] == 422
    assert code_of(post(api, run, "predict", image(), export=checkpoint.pk + 999))[0] == 404
    assert code_of(post(api, training_job(user, dataset), "predict", image(), export=export.pk))[0] == 404
    waiting = export_job(user, run, checkpoint, status="running")
    assert code_of(post(api, run, "predict", image(), export=waiting.pk)) == (409, "action.refused")
    (storage().job(export.pk).export_dir / "model.onnx").write_bytes(b"another")
    changed = post(api, run, "predict", image(), export=export.pk)
    assert code_of(changed) == (400, "checkpoint.damaged")
    assert "model.onnx" in changed.json()["error"]["message"]
    export.private = True
    export.save()
    client.force_login(other_user)
    assert post(client, run, "predict", image(), export=export.pk).status_code == 404


def test_what_is_refused(api, run, checkpoint, dataset):
    assert code_of(post(api, run, "predict")) == (422, "request.invalid")
    assert code_of(post(api, run, "predict", *[image()] * (MAX_IMAGES + 1))) == (422, "request.invalid")
    assert code_of(post(api, run, "explain", image(), image())) == (422, "request.invalid")
    assert code_of(post(api, run, "explain", image(b""))) == (400, "image.invalid")
    assert code_of(post(api, run, "explain", image(), label=3)) == (400, "spec.invalid")
    assert code_of(post(api, run, "predict", image(), checkpoint=checkpoint.pk + 1)) == (404, "not_found")
    assert code_of(post(api, run, "predict", image(), top=0)) == (422, "request.invalid")
    assert code_of(post(api, dataset, "predict", image())) == (404, "not_found")
    assert code_of(post_sample(api, run, "predict", run)) == (404, "not_found")
    assert post(api, run, "predict", *[image(b"")] * 101).status_code == 400
    path = f"/api/v1/trainings/{run.pk}/predict"
    for body in ("", "{}", "[]", '{"sample": {"dataset": 1}}', '{"sample": {"dataset": 1, "id": -1}}'):
        assert code_of(api.post(path, body, content_type="application/json")) == (422, "request.invalid")
    assert api.post(path, b"x", content_type="multipart/form-data; boundary=y").status_code in {400, 422}


def test_more_than_a_request_may_bring(api, run, checkpoint):
    answer = api.post(
        f"/api/v1/trainings/{run.pk}/predict", b"", content_type="multipart/form-data", CONTENT_LENGTH=str(66 * 2**20)
    )

    assert answer.status_code == 413
    assert "64 MiB" in answer.json()["error"]["message"]


def test_without_a_checkpoint(api, run):
    assert code_of(post(api, run, "predict", image())) == (409, "action.refused")


def test_what_is_private_is_not_there(client, other_user, run, checkpoint, dataset):
    client.force_login(other_user)
    assert post(client, run, "predict", image()).status_code == 200
    dataset.private = True
    dataset.save()
    assert post_sample(client, run, "predict", dataset).status_code == 404
    run.private = True
    run.save()
    for what in ("predict", "explain", "layers", "layer-tiles"):
        assert post(client, run, what, image(), layer="features.0").status_code == 404


def test_a_token_that_may_only_read_is_refused(client, user, run, checkpoint):
    _, secret = token_create(user, "reader", scope="read")
    path = f"/api/v1/trainings/{run.pk}/predict"

    answer = client.post(path, {"files": [image()]}, headers={"Authorization": f"Bearer {secret}"})

    assert answer.status_code == 403


def test_a_service_that_is_gone_and_comes_back(api, run, checkpoint, serve, monkeypatch):
    monkeypatch.setattr("dashboard.serving.CONNECT_TIMEOUT_S", 0.1)
    serve.kill()
    gone = post(api, run, "predict", image())

    serve.start()

    assert code_of(gone) == (503, "serve.unavailable")
    assert "serve.log" in gone.json()["error"]["hint"]
    assert post(api, run, "predict", image()).status_code == 200
