"""Exports whose files were altered behind Fovea's back, and requests that ask for too much of it."""

from __future__ import annotations

import json
import os

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.storage import storage
from tests.dashboard.exporting import exportable_checkpoint, exportable_run
from tests.kits.exported import export_job
from wire.layout import ExportDir

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    return exportable_run(user)


@pytest.fixture
def exported(user, run):
    checkpoint = exportable_checkpoint(run)
    return lambda **values: export_job(user, run, checkpoint, **values)


def folder_of(export):
    return storage().job(export.pk).export_dir


def first_file(export, **changes):
    """Rewrites what the report says of its first file."""
    path = ExportDir(folder_of(export)).report_path
    report = json.loads(path.read_text())
    report["files"][0] |= changes
    path.write_text(json.dumps(report))


def refusals(api, export, path="model.onnx"):
    addresses = (
        f"/api/v1/exports/{export.pk}/files/{path}",
        f"/api/v1/trainings/{export.part_of_id}/bundle?export={export.pk}",
    )
    answers = [api.get(address) for address in addresses]
    assert [answer.status_code for answer in answers] == [404, 404]
    return [answer.json()["error"]["message"] for answer in answers]


@pytest.mark.parametrize("outside", ["../../spec.json", "{root}/spec.json", "golden/../../../spec.json"])
def test_a_report_that_names_files_of_others_opens_none(api, exported, outside):
    export = exported()
    place = storage().job(export.pk)
    place.spec_path.write_text("{}")
    path = outside.format(root=place.path)
    first_file(export, path=path, bytes=2)
    assert all("cannot be read" in message for message in refusals(api, export, path))


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "m\u00f6del.onnx"},
        {"path": "golden/model.onnx\n"},
        {"bytes": -1},
        {"crc32": 2**32},
        {"sha256": "\n" * 64},
    ],
)
def test_a_report_that_makes_no_sense_is_told_and_no_failure_of_the_server(api, exported, changes):
    export = exported()
    first_file(export, **changes)
    assert all("cannot be read" in message for message in refusals(api, export))


def test_a_golden_image_that_is_no_file_of_the_export_is_told(api, exported):
    export = exported()
    path = ExportDir(folder_of(export)).report_path
    path.write_text(path.read_text().replace('"path": "golden/1.png"', '"path": "golden/7.png"', 1))
    assert all("cannot be read" in message for message in refusals(api, export))


def test_a_link_is_not_followed(api, exported, tmp_path):
    elsewhere = exported(precision="fp16")
    for name in ("model.onnx", "golden"):
        export = exported()
        place = folder_of(export) / name
        place.rename(tmp_path / f"{export.pk}-{name}")
        place.symlink_to(folder_of(elsewhere) / name if name == "golden" else tmp_path / f"{export.pk}-{name}")
        assert all("is a link" in message for message in refusals(api, export))


def test_a_pipe_is_not_waited_for(api, exported):
    export = exported()
    place = folder_of(export) / "model.onnx"
    place.unlink()
    os.mkfifo(place)
    first_file(export, bytes=0)
    assert all("no plain file" in message for message in refusals(api, export))


@pytest.mark.parametrize(
    "names", [["x" * 301], ["x"] * 501, ["\ud800"]], ids=["a long name", "many names", "half a character"]
)
def test_names_of_layers_have_an_end(api, run, exported, names):
    exported()
    body = {"targets": [{"backend": {"name": "onnx"}, "precision": "int8"}], "calibration": {"keep_float": names}}
    answer = api.post(f"/api/v1/trainings/{run.pk}/exports", json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "request.invalid")


def test_asking_for_an_export_costs_the_same_however_many_there_are(api, run, exported):
    counts = []
    for seed, n_more in enumerate((1, 30)):
        wish = {"targets": [{"backend": {"name": "onnx"}, "precision": "int8"}], "calibration": {"seed": seed}}
        for n in range(n_more):
            exported(precision=("fp32", "fp16")[n % 2])
        with CaptureQueriesContext(connection) as queries:
            answer = api.post(f"/api/v1/trainings/{run.pk}/exports", wish, content_type="application/json")
        assert answer.json()[0]["is_new"]
        counts.append(len(queries))
    assert counts[0] == counts[1]
