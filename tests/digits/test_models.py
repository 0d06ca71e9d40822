"""DIGITS' behaviours T-53 to T-58, of inference with a classification model, on the API. See docs/digits.md.

One network is trained for all of them; each test gets a run of its own that ended as it did.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sklearn  # noqa: F401 - it and torch set variables of the environment: not inside a test
import torch._inductor.utils  # noqa: F401
from django.core.files.uploadedfile import SimpleUploadedFile

from jobs.devices import DeviceWatch
from jobs.dispatch import dispatch
from jobs.models import Device, DeviceLease, Job
from jobs.states import Status
from tests.digits.conftest import folder, import_wish
from tests.digits.toy import CLASSES, first_images, write_toy
from tests.flow.running import PATIENCE_S, log_of, until_ended, until_quiet
from tests.kits.settling import settle_as
from tests.surroundings import until
from wire.layout import Storage
from wire.specs import Choice, FromFolder, ImportOptions, ImportSpec, TrainOptions, TrainSpec

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

OPTIONS = {"epochs": 20, "batch_size": 8, "image_px": 32, "learning_rate": 3e-3, "best_by": "loss"}
VAL_PCT = 20


@dataclass(frozen=True, slots=True)
class Trained:
    """Import (job 1) and training (job 2) as they ended."""

    storage: Storage
    tree: Path


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("toy")
    tree, storage = write_toy(root / "toy"), Storage(root / "data")
    source = FromFolder(path=str(tree))
    importing = ImportSpec(name="toy", source=source, options=ImportOptions(val_pct=VAL_PCT))
    training = TrainSpec(
        dataset="../1/artifacts/dataset", model=Choice(name="lenet5"), options=TrainOptions(**OPTIONS), device="cpu"
    )
    for job_id, spec in ((1, importing), (2, training)):
        job = storage.job(job_id)
        job.path.mkdir(parents=True)
        job.spec_path.write_text(spec.model_dump_json())
        subprocess.run(
            [sys.executable, "-m", "engine", spec.verb, "--dir", str(job.path)], check=True, capture_output=True
        )
    return Trained(storage, tree)


@pytest.fixture
def tree(settings, trained, tmp_path):
    settings.IMPORT_ROOTS = [trained.tree, tmp_path]
    return trained.tree


@pytest.fixture
def dataset(digits_api, tree, trained):
    wish = import_wish(folder(tree), val_pct=VAL_PCT)
    return settle_as(digits_api.queued("/datasets", wish), trained.storage.job(1).path)


@pytest.fixture
def wish(dataset):
    return {"dataset": dataset.pk, "model": {"name": "lenet5"}, "options": OPTIONS, "devices": ["cpu"]}


@pytest.fixture
def run(digits_api, wish, trained):
    run = settle_as(digits_api.queued("/trainings", wish), trained.storage.job(2).path)
    assert (run.status, run.best_series) == (Status.SUCCEEDED, "val/loss")
    return run


def tried(api, run, *files: Path, what="predict"):
    brought = [SimpleUploadedFile(file.name, file.read_bytes()) for file in files]
    answer = api.post(f"/api/v1/trainings/{run.pk}/{what}", {"files": brought})
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_t53_one_image_is_classified(api, run, tree, serve):
    for name, file in first_images(tree).items():
        (image,) = tried(api, run, file)["images"]
        assert image["error"] is None
        assert image["top"][0]["name"] == name
        assert image["top"][0]["probability"] > 0.5
        assert sum(guess["probability"] for guess in image["top"]) == pytest.approx(1, abs=1e-3)


def test_t53_an_image_of_the_dataset_is_classified(api, digits_api, run, dataset, serve):
    for label, name in enumerate(CLASSES):
        sample = digits_api.get(f"/datasets/{dataset.pk}/samples", label=label)["samples"][0]
        body = {"sample": {"dataset": dataset.pk, "id": sample["id"]}}
        (image,) = digits_api.post(f"/trainings/{run.pk}/predict", body).json()["images"]
        assert image["top"][0]["name"] == name


def test_t53_layers_are_shown_for_one_image(api, run, tree, serve):
    file = first_images(tree)["red-to-right"]
    told = tried(api, run, file, what="layers")
    assert told["top"][0]["name"] == "red-to-right"
    assert told["n_parameters"] == sum(layer["n_parameters"] for layer in told["layers"])
    for layer in told["layers"]:
        assert {"name", "type", "activations", "weights"} <= layer.keys()
        assert {"shape", "mean", "std", "histogram"} <= layer["activations"].keys()
    for what in ("activations", "weights"):
        tiles = api.post(
            f"/api/v1/trainings/{run.pk}/layer-tiles",
            {"files": [SimpleUploadedFile(file.name, file.read_bytes())]},
            query_params={"layer": told["layers"][0]["name"], "what": what},
        )
        assert (tiles.status_code, tiles.headers["Content-Type"]) == (200, "image/png")


class Lists:
    """Classifications of lists, and their answers in the order of the lines."""

    def __init__(self, digits_api, run, tree, written) -> None:
        self._api, self._run, self._tree, self._written = digits_api, run, tree, written

    def classified(self, lines, *, absolute=True) -> tuple[Job, list[dict[str, Any]]]:
        prefix = f"{self._tree}/" if absolute else ""
        (self._written / "list.txt").write_text("".join(f"{prefix}{line}\n" for line in lines))
        (self._written / "labels.txt").write_text("\n".join(CLASSES))
        source = {
            "kind": "lists",
            "train": {"path": str(self._written / "list.txt")},
            "labels": {"path": str(self._written / "labels.txt")},
            "folder": "" if absolute else str(self._tree),
        }
        job = self._api.done("/classifications", {"run": self._run.pk, "source": source})
        return job, self._api.get(f"/classifications/{job.pk}/predictions")["items"]


@pytest.fixture
def lists(digits_api, run, tree, tmp_path):
    return Lists(digits_api, run, tree, tmp_path)


def _first_lines(tree):
    return [
        f"{file.relative_to(tree)} {label}"
        for (label, name) in enumerate(CLASSES)
        for file in [first_images(tree)[name]]
    ]


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "from_folder"])
def test_t54_t56_the_first_image_of_each_class_is_classified_from_a_list(absolute, lists, tree):
    _, items = lists.classified(_first_lines(tree), absolute=absolute)
    for item, name in zip(items, CLASSES, strict=True):
        assert (item["predicted_name"], item["label_name"]) == (name, name)
        assert not item["wrong"]
        assert item["error"] is None
        assert item["top"][0]["probability"] == item["confidence"] > 0.5


@pytest.mark.parametrize("label", ["-1", "3", "99999999999999999999", "emu", ""])
def test_t55_a_label_that_means_no_class_breaks_nothing(label, lists):
    _, items = lists.classified([f"red-to-right/00.png {label}".strip(), "green-to-top/00.png 1"])
    odd, known = items
    assert (odd["predicted_name"], odd["label"], odd["wrong"]) == ("red-to-right", None, None)
    assert (known["label_name"], known["wrong"]) == ("green-to-top", False)


def test_t55_a_file_that_is_not_there_or_is_no_image_breaks_nothing(lists, digits_api, run, tree, tmp_path):
    _, (gone, known) = lists.classified(["red-to-right/none.png 2", "red-to-right/00.png 2"])
    assert (gone["predicted"], known["predicted_name"]) == (None, "red-to-right")
    assert "there is no such file" in gone["error"]

    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "text.png").write_text("I am no picture")
    (tmp_path / "brought" / "00.png").write_bytes(first_images(tree)["red-to-right"].read_bytes())
    job = digits_api.done("/classifications", {"run": run.pk, "source": folder(tmp_path / "brought")})
    known, text = digits_api.get(f"/classifications/{job.pk}/predictions")["items"]
    assert (text["predicted"], known["predicted_name"]) == (None, "red-to-right")
    assert text["error"].startswith("not an image in a format that is read here")


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "from_folder"])
def test_t57_the_surest_images_of_every_class_are_listed(absolute, lists, digits_api, tree):
    lines = [f"{file.relative_to(tree)} 0" for file in sorted(tree.rglob("*.png"))]
    job, items = lists.classified(lines, absolute=absolute)
    for label, name in enumerate(CLASSES):
        top = digits_api.get(f"/classifications/{job.pk}/top", label=label, n=3)
        assert [item["predicted_name"] for item in top] == [name] * 3
        best = sorted((item["confidence"] for item in items if item["predicted"] == label), reverse=True)
        assert [item["confidence"] for item in top] == best[:3]


@pytest.mark.django_db(transaction=True)
def test_t58_one_image_is_classified_while_every_device_is_busy(redis_server, api, digits_api, run, wish, tree, serve):
    for evaluation in digits_api.get(f"/trainings/{run.pk}/evaluations"):
        assert digits_api.post(f"/jobs/{evaluation['id']}/cancel", {}).status_code == 200
    DeviceWatch().look()
    devices = Device.objects.values_list("uuid", flat=True)
    busy = [
        digits_api.queued("/trainings", wish | {"options": OPTIONS | {"epochs": 1000}, "devices": [device]})
        for device in devices
    ]
    dispatch()
    for job in busy:
        until(lambda job=job: Job.objects.filter(pk=job.pk, done__gt=0).exists(), timeout_s=PATIENCE_S)
    assert DeviceLease.objects.filter(attempt__ended_at=None).count() == len(devices)
    waiting = digits_api.queued("/trainings", wish)
    dispatch()

    for name, file in first_images(tree).items():
        (image,) = tried(api, run, file)["images"]
        assert image["top"][0]["name"] == name
    assert digits_api.get(f"/jobs/{waiting.pk}")["status"] == "queued"
    for job in [waiting, *busy]:
        job.refresh_from_db()
        assert job.status in {Status.QUEUED, Status.RUNNING}, log_of(job)
        assert digits_api.post(f"/jobs/{job.pk}/cancel", {}).status_code == 200
    for job in busy:
        assert until_ended(job).status == Status.CANCELLED
    until_quiet()
