"""DIGITS' behaviours T-54 to T-57 on the API: many images of a list classified by a network that was trained here.

What is replaced: DIGITS answered within one request; here it is a job, whose answers are read when it has succeeded.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from jobs import services
from jobs.models import Job
from jobs.requests import ImportRequest, TrainingRequest
from jobs.states import Status
from tests.flow.running import log_of, until_ended, until_quiet
from wire.specs import Choice, FromFolder, ImportOptions, TrainOptions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

BRIGHTNESS = {"dark": 40, "light": 215}
N_EACH = 16


@pytest.fixture
def run(user, redis_server, settings, tmp_path):
    """A network that tells dark pictures from light ones."""
    settings.IMPORT_ROOTS = [tmp_path]
    noise = np.random.default_rng(0)
    for name, brightness in BRIGHTNESS.items():
        (tmp_path / "set" / name).mkdir(parents=True)
        for n in range(N_EACH):
            pixels = np.clip(brightness + noise.normal(0, 20, (32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "set" / name / f"{n}.png")
    wish = ImportRequest(
        name="brightness", source=FromFolder(path=str(tmp_path / "set")), options=ImportOptions(val_pct=25)
    )
    dataset = until_ended(services.import_submit(user, wish))
    assert dataset.status == Status.SUCCEEDED, log_of(dataset)
    options = TrainOptions(epochs=8, batch_size=8, image_px=32)
    run = services.training_submit(
        user, TrainingRequest(dataset=dataset.pk, model=Choice(name="lenet5"), options=options, devices=["cpu"])
    )
    until_ended(run)
    assert run.status == Status.SUCCEEDED, log_of(run)
    until_quiet()
    return run


def classified(api, run, **source):
    """The answers for a list, in its order."""
    body = json.dumps({"run": run.pk, "source": {"kind": "lists", **source}})
    answer = api.post("/api/v1/classifications", body, content_type="application/json")
    assert answer.status_code == 201, answer.json()
    job = until_ended(Job.objects.get(pk=answer.json()["id"]))
    assert job.status == Status.SUCCEEDED, log_of(job)
    until_quiet()
    return job, api.get(f"/api/v1/classifications/{job.pk}/predictions").json()["items"]


def test_T54_T55_T56_T57_lists_of_images_are_classified(api, run, tmp_path):
    (tmp_path / "labels.txt").write_text("dark\nlight\n")
    labels = {"path": str(tmp_path / "labels.txt")}
    images = [("dark/0.png", 0), ("light/0.png", 1), ("light/1.png", 1)]

    # T-54: absolute paths, and paths relative to a folder.
    (tmp_path / "absolute.txt").write_text("".join(f"{tmp_path}/set/{name} {label}\n" for name, label in images))
    _, absolute = classified(api, run, train={"path": str(tmp_path / "absolute.txt")}, labels=labels)
    (tmp_path / "relative.txt").write_text("".join(f"{name} {label}\n" for name, label in images))
    job, relative = classified(
        api, run, train={"path": str(tmp_path / "relative.txt")}, labels=labels, folder=str(tmp_path / "set")
    )
    for items in (absolute, relative):
        # T-56: the right answer for the first image of each class.
        assert [item["predicted_name"] for item in items] == ["dark", "light", "light"]
        assert [item["label_name"] for item in items] == ["dark", "light", "light"]
        assert not any(item["wrong"] or item["error"] for item in items)
        assert all(item["top"][0]["probability"] == item["confidence"] > 0.5 for item in items)

    # T-57: the surest images of every class.
    for label, name in enumerate(BRIGHTNESS):
        top = api.get(f"/api/v1/classifications/{job.pk}/top?label={label}&n=1").json()
        assert [item["predicted_name"] for item in top] == [name]

    # T-55: labels that mean no class, and a file that is not there, are no reason to fail.
    lines = ["dark/0.png -1", "light/0.png 7", "light/1.png", "dark/none.png 0", "dark/1.png 0"]
    (tmp_path / "odd.txt").write_text("\n".join(lines))
    _, odd = classified(
        api, run, train={"path": str(tmp_path / "odd.txt")}, labels=labels, folder=str(tmp_path / "set")
    )
    by_name = {item["name"].removeprefix(f"{tmp_path}/set/"): item for item in odd}
    for name in ("dark/0.png", "light/0.png", "light/1.png"):
        assert by_name[name]["predicted_name"] == name.split("/")[0]
        assert (by_name[name]["label"], by_name[name]["wrong"]) == (None, None)
    assert by_name["dark/none.png"]["error"]
    assert (by_name["dark/1.png"]["label_name"], by_name["dark/1.png"]["wrong"]) == ("dark", False)
