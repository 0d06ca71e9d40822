"""The form that exports a run: its defaults, what it asks for, and what it says to what is wrong or missing."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

import wire.cards
from jobs.models import Artifact, Job
from tests.dashboard.exporting import RTX, box_of, exportable_checkpoint, exportable_run, page, submit, words
from tests.dashboard.makers import checkpoint_of
from tests.kits.exported import export_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    return exportable_run(user)


@pytest.fixture
def checkpoint(run):
    return exportable_checkpoint(run)


def test_the_form_queues_an_export_for_each_box(api, run, checkpoint):
    other = checkpoint_of(run, step=20)
    other.meta = checkpoint.meta | {"step": 20}
    other.save()
    answer = submit(
        api, run, "onnx:int8", "tensorrt_rtx:fp16", checkpoint=other.pk,
        **{"calibration-n_images": "64", "calibration-keep_float": "conv1\r\nfeatures."},
        **{"verification-least_agreement_pct": "98"},
        **RTX, **{"backend-tensorrt_rtx-compute_capabilities": ["12.0", "8.0"]},
    )  # fmt: skip
    assert answer.url == f"/runs/{run.pk}/export/"
    int8, fp16 = Job.objects.filter(verb="export").order_by("pk")
    assert (int8.spec["backend"]["name"], int8.spec["precision"]) == ("onnx", "int8")
    assert int8.spec["calibration"] == {"n_images": 64, "seed": 0, "keep_float": ["conv1", "features."], "repair": True}
    assert int8.spec["verification"]["least_agreement_pct"] == 98
    assert int8.spec["checkpoint"]["name"] == "step-20"
    assert int8.wants == ["cpu"]
    assert fp16.spec["backend"]["options"]["compute_capabilities"] == ["8.0", "12.0"]
    assert fp16.spec["backend"]["options"]["most_batch"] == 16
    assert "2 exports queued." in page(api, run)
    submit(api, run, "onnx:fp32", "onnx:fp16")
    submit(api, run, "onnx:fp32", "onnx:fp16", "pytorch:fp32")
    assert "1 export queued. 2 were there already and are kept." in page(api, run)


def test_the_defaults_can_be_sent_as_they_are(api, run, checkpoint):
    html = page(api, run)
    targets = [
        value
        for value in re.findall(r'name="target"\s+value="([^"]*)"', html)
        if "checked" in box_of(html, "target", value)
    ]
    assert submit(api, run, *targets).status_code == 302
    specs = [job.spec for job in Job.objects.filter(verb="export").order_by("pk")]
    assert [(spec["backend"]["name"], spec["precision"]) for spec in specs] == [
        ("pytorch", "fp32"), ("onnx", "fp32"), ("onnx", "fp16"), ("onnx", "int8"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("targets", "fields", "told"),
    [
        ((), {}, "Choose at least one target."),
        (("onnx:fp64", "<b>:fp32"), {}, "Choose at least one target."),
        (("onnx:int8",), {"calibration-n_images": "0"}, "least 1"),
        (("onnx:fp32",), {"verification-most_lost_points": "much"}, "Enter a number."),
        (("onnx:fp32",), {"checkpoint": "77"}, "It is not there any more"),
        (("onnx:fp32",), {"device": "GPU-1"}, "This device is gone"),
        (("tensorrt_rtx:fp32",), RTX, "This field is required."),
        (
            ("tensorrt_rtx:fp32",),
            RTX | {"backend-tensorrt_rtx-compute_capabilities": "8.6", "backend-tensorrt_rtx-most_batch": "2"},
            "The batch must not fall",
        ),
    ],
    ids=["none", "unknown", "calibration", "limit", "checkpoint", "device", "capabilities", "range"],
)
def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(api, run, checkpoint, targets, fields, told):
    answer = submit(api, run, *targets, **{"verification-n_images": "77", **fields})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert told in html
    assert 'name="verification-n_images" value="77"' in html
    assert "<b>:" not in html
    for target in targets:
        if target.endswith((":int8", "x:fp32")):
            assert "checked" in box_of(html, "target", target)
    assert "checked" not in box_of(html, "target", "pytorch:fp32"), "it was not chosen"
    assert not Job.objects.filter(verb="export").exists()


def test_a_backend_that_is_not_installed_says_what_is_missing(api, run, checkpoint, monkeypatch):
    there = wire.cards.find_spec
    monkeypatch.setattr(wire.cards, "find_spec", lambda name: None if name == "tensorrt_rtx" else there(name))
    html = page(api, run)
    assert "Not installed here: the module tensorrt_rtx is missing. Install tensorrt_rtx" in words(html)
    assert re.search(r'aria-describedby="backend-tensorrt_rtx-about"\s+disabled', html)
    assert "disabled" not in box_of(html, "target", "onnx:fp32")
    assert submit(api, run, "tensorrt_rtx:fp32").status_code == 422
    assert submit(api, run, "tensorrt_rtx:fp32", "onnx:fp32").status_code == 302
    assert Job.objects.get(verb="export").spec["backend"]["name"] == "onnx"


def test_without_a_checkpoint_or_a_dataset_the_page_says_what_to_do(api, run):
    html = page(api, run)
    assert "This run kept no checkpoint" in html
    assert "export-form" not in html
    checkpoint_of(run)
    Job.objects.filter(verb="import").update(trashed_at=timezone.now())
    html = page(api, run)
    assert "The dataset of this run is not there any more" in html
    assert "export-form" not in html


def test_without_validation_images_it_will_not_be_run_and_the_form_says_so(api, run, checkpoint):
    Artifact.objects.filter(kind="dataset").update(meta={"counts": {"train": 9}, "classes": ["1"], "n_classes": 1})
    assert "exports are made, but their verdict will be “not run”" in words(page(api, run))


def test_a_dataset_that_others_do_not_see_is_not_named_to_them(client, other_user, user, run, checkpoint):
    Job.objects.filter(verb="import").update(private=True, title="Secret digits")
    export_job(user, run, checkpoint)
    client.force_login(other_user)
    html = page(client, run)
    assert "Secret" not in html
    assert "The dataset of this run is private" in html


def test_a_refusal_of_the_service_stands_above_the_form(api, run, checkpoint):
    checkpoint.meta |= {"classes": ["owl"], "n_classes": 1}
    checkpoint.save()
    answer = submit(api, run, "onnx:fp32")
    assert answer.status_code == 422
    assert "shares no class with the run" in answer.content.decode()
