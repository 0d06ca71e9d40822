"""A run that can be exported, the form that does so, and what its page says."""

from __future__ import annotations

import re

from jobs.models import JobInput
from tests.dashboard.makers import checkpoint_of, import_job, training_job

FIELDS = {
    "calibration-n_images": "256",
    "calibration-seed": "0",
    "calibration-repair": "on",
    "verification-n_images": "1000",
    "verification-seed": "0",
    "verification-most_lost_points": "1",
}
RTX = {
    f"backend-tensorrt_rtx-{name}": str(value)
    for name, value in {
        "least_batch": 1, "typical_batch": 4, "most_batch": 16, "least_px": 1, "typical_px": 64, "most_px": 512,
    }.items()
}  # fmt: skip


def exportable_run(user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded", title="<i>Owls</i>")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    return run


def exportable_checkpoint(run):
    made = checkpoint_of(run)
    made.meta |= {"classes": [str(digit) for digit in range(10)], "n_classes": 10}
    made.save()
    return made


def page(client, run, **more):
    answer = client.get(f"/runs/{run.pk}/export/", **more)
    assert answer.status_code == 200
    return answer.content.decode()


def words(html):
    """Without marks, and with plain dashes and minus signs."""
    plain = re.sub("[\N{MINUS SIGN}\N{EN DASH}]", "-", re.sub(r"<[^>]+>", " ", html))
    return " ".join(plain.split())


def box_of(html, name, value):
    found = re.search(rf'<input [^>]*name="{name}"\s+value="{value}"[^>]*>', html)
    assert found, f"no box {name}={value}"
    return found[0]


def submit(client, run, *targets, **fields):
    return client.post(f"/runs/{run.pk}/export/", {"target": targets, **FIELDS, **fields})
