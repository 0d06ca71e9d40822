"""The page where a network is tried: what it offers to whom. The answers come from the API, tested beside it."""

from __future__ import annotations

import json
import re

import pytest
from django.utils.html import escape

from jobs.models import Artifact, Job, JobInput
from jobs.storage import storage
from tests.dashboard.makers import checkpoint_of, import_job, training_job
from tests.kits.exported import export_job
from tests.kits.stored import Row, store
from wire.serving import MAX_REQUEST_BYTES

pytestmark = pytest.mark.django_db

CLASSES = ["cat", "<script>alert(1)</script>", "قطة 🐈"]


@pytest.fixture
def dataset(user):
    job = import_job(user)
    rows = [
        Row(f"{label}/{n}'\"<b>.png", "val" if n < 4 else "train", label, b"not looked at", 8, 8)
        for label in range(3)
        for n in range(30)
    ]
    manifest = store(storage().job(job.pk).dataset_dir, CLASSES, rows, [])
    Artifact.objects.filter(made_by=job).update(sha256=manifest.samples_sha256)
    return job


@pytest.fixture
def run(user, dataset):
    made = training_job(user, dataset, title="<i>Mine</i>")
    JobInput.objects.create(job=made, artifact=dataset.artifacts.get(), role="dataset")
    return made


def data_of(page):
    found = re.search(r'<script id="try-data" type="application/json">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def get(client, address, **query):
    return client.get(address, query)


def test_what_the_page_tells_its_script(api, run):
    checkpoint_of(run)
    page = get(api, f"/runs/{run.pk}/try/").content.decode()
    told = data_of(page)
    assert told["asked"]["predict"] == f"/api/v1/trainings/{run.pk}/predict"
    assert told["asked"]["layer-tiles"] == f"/api/v1/trainings/{run.pk}/layer-tiles"
    assert told["classes"] == ["cat", "=dog", "<b>bird</b>"]
    assert (told["sample"], told["most_bytes"]) == (None, MAX_REQUEST_BYTES)
    assert "<i>Mine</i>" not in page
    assert escape("<i>Mine</i>") in page
    assert "<b>bird</b>" not in page


def test_checkpoints_are_named_by_what_they_are(api, run):
    checkpoint_of(run, 20)
    page = get(api, f"/runs/{run.pk}/try/checkpoints").content.decode()
    assert "step-20, epoch 2 (best, newest)" in page
    late = checkpoint_of(run, 40)
    Job.objects.filter(pk=run.pk).update(best_step=20)
    page = get(api, f"/runs/{run.pk}/try/checkpoints").content.decode()
    assert "step-40, epoch 4 (newest)" in page
    assert "step-20, epoch 2 (best)" in page
    assert f'value="newest" data-id="{late.pk}"' in " ".join(page.split())
    assert 'data-live="yes"' in page


def options(page):
    found = re.findall(r"<option ([^>]*)>([^<]*)</option>", page[page.index('id="try-network"') :])
    return {" ".join(text.split()): " ".join(attributes.split()) for attributes, text in found}


def test_exports_are_offered_beside_the_checkpoints(api, user, run):
    checkpoint = checkpoint_of(run)
    earlier = export_job(user, run, checkpoint)
    newest = export_job(user, run, checkpoint, outcome="failed")
    export_job(user, run, checkpoint, backend="pytorch")
    export_job(user, run, checkpoint, backend="tensorrt_rtx", precision="int8", outcome="not_run")
    ending = export_job(user, run, checkpoint, precision="fp16")
    Job.objects.filter(pk=ending.pk).update(status="running")

    found = options(get(api, f"/runs/{run.pk}/try/", export=newest.pk).content.decode())

    assert found["ONNX FP32 of step-40 (failed)"] == f'value="export:{newest.pk}" selected'
    assert found[f"ONNX FP32 of step-40 (passed, an earlier one, #{earlier.pk})"] == f'value="export:{earlier.pk}"'
    assert "PyTorch weights of step-40 (passed)" in found
    not_run = found["TensorRT for RTX INT8 of step-40 (not run here: no CUDA device)"]
    assert not_run.endswith("disabled")
    assert not any("FP16" in text for text in found), "it has files, and no verdict yet"


def test_exports_of_others_that_are_private_are_not_offered(client, user, other_user, run):
    export = export_job(user, run, checkpoint_of(run), private=True)
    client.force_login(other_user)
    assert f"export:{export.pk}" not in get(client, f"/runs/{run.pk}/try/checkpoints").content.decode()


@pytest.mark.parametrize(("status", "words"), [("running", "notices it by itself"), ("cancelled", "ended without one")])
def test_a_run_without_a_checkpoint_says_what_to_do(api, run, status, words):
    Job.objects.filter(pk=run.pk).update(status=status)
    page = get(api, f"/runs/{run.pk}/try/").content.decode()
    assert words in page
    assert "None yet" in page


def test_images_of_the_dataset_are_drawn_by_lot(api, run, dataset):
    page = get(api, f"/runs/{run.pk}/try/").content.decode()
    assert "Take from the dataset" in page
    assert '<option value="val" selected>' in page
    drawn = get(api, f"/runs/{run.pk}/try/samples", split="val").content.decode()
    ids = re.findall(r'data-sample="(\d+)"', drawn)
    assert len(ids) == len(set(ids)) == 12, "four of each class"
    assert "<script>" not in drawn
    assert escape(CLASSES[1]) in drawn
    some = get(api, f"/runs/{run.pk}/try/samples", split="train", **{"class": "2"}).content.decode()
    assert len(re.findall("data-pick", some)) == 18
    assert set(re.findall(r'data-truth="([^"]*)"', some)) == {CLASSES[2]}
    assert get(api, f"/runs/{run.pk}/try/samples", split="x").status_code == 422
    assert get(api, f"/runs/{run.pk}/try/samples", **{"class": "7"}).status_code == 422


def test_an_address_may_name_a_sample(api, run, dataset):
    checkpoint_of(run)
    for address in (f"/runs/{run.pk}/try/", f"/runs/{run.pk}/try/layers/"):
        answer = get(api, address, dataset=dataset.pk, sample=31)
        told = data_of(answer.content.decode())["sample"]
        assert (told["id"], told["truth"], told["dataset"]) == (31, CLASSES[1], dataset.pk)
        assert "No image is open" not in answer.content.decode()
    assert get(api, f"/runs/{run.pk}/try/", dataset=dataset.pk, sample=999).status_code == 404
    assert get(api, f"/runs/{run.pk}/try/", dataset=run.pk, sample=1).status_code == 404
    assert get(api, f"/runs/{run.pk}/try/", dataset="x", sample="-1").status_code == 200


def test_layers_of_an_image_that_was_brought_have_no_address(api, run):
    page = get(api, f"/runs/{run.pk}/try/layers/").content.decode()
    assert "No image is open" in page
    assert "not stored" in page


def test_a_private_dataset_is_not_offered(client, other_user, run, dataset):
    client.force_login(other_user)
    assert b"Take from the dataset" in get(client, f"/runs/{run.pk}/try/").content
    Job.objects.filter(pk=dataset.pk).update(private=True)
    page = get(client, f"/runs/{run.pk}/try/").content.decode()
    assert "Take from the dataset" not in page
    assert "is private" in page
    assert get(client, f"/runs/{run.pk}/try/samples", split="val").status_code == 404
    assert get(client, f"/runs/{run.pk}/try/", dataset=dataset.pk, sample=1).status_code == 404


def test_a_dataset_that_is_gone_is_said(api, run, dataset):
    dataset.artifacts.update(trashed_at=dataset.created_at)
    page = get(api, f"/runs/{run.pk}/try/").content.decode()
    assert "is not there any more" in page


@pytest.mark.parametrize("what", ["try/", "try/layers/", "try/checkpoints", "try/samples"])
def test_what_is_private_is_not_there(client, other_user, run, what):
    Job.objects.filter(pk=run.pk).update(private=True)
    assert get(client, f"/runs/{run.pk}/{what}").status_code == 302
    client.force_login(other_user)
    assert get(client, f"/runs/{run.pk}/{what}").status_code == 404


def test_a_dataset_is_no_run(api, dataset):
    assert get(api, f"/runs/{dataset.pk}/try/").status_code == 404


def test_the_number_of_queries_does_not_grow(api, run, django_assert_max_num_queries):
    for step in range(10, 110, 10):
        export_job(run.owner, run, checkpoint_of(run, step))
    with django_assert_max_num_queries(16):
        get(api, f"/runs/{run.pk}/try/")
    with django_assert_max_num_queries(8):
        get(api, f"/runs/{run.pk}/try/samples", split="val")
