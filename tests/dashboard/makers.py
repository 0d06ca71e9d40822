"""Jobs as the recorder would have left them, for tests that only read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobs.models import Artifact, Attempt, Job
from jobs.storage import storage
from wire.events import Envelope, Scalars
from wire.specs import Choice, FromSample, ImportSpec, TrainSpec

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def import_job(owner, *, status="succeeded", private=False, title="Digits"):
    spec = ImportSpec(name=title, source=FromSample(name="digits")).model_dump(mode="json")
    job = Job.objects.create(verb="import", status=status, spec=spec, title=title, owner=owner, private=private)
    if status == "succeeded":
        meta = {
            "n_images": 1797,
            "n_classes": 10,
            "classes": [str(digit) for digit in range(10)],
            "counts": {"train": 1438, "val": 359},
            "width_px": {"min": 8, "median": 8, "max": 8},
            "height_px": {"min": 8, "median": 8, "max": 8},
            "colour": "grey",
            "mean": [0.3, 0.3, 0.3],
            "std": [0.4, 0.4, 0.4],
        }
        Artifact.objects.create(
            made_by=job, kind="dataset", name="dataset", path="artifacts/dataset", sha256="0" * 64, bytes=1, meta=meta
        )
    return job


def training_job(owner, dataset, *, status="running", private=False, title="LeNet on digits", n_events=0):
    spec = TrainSpec(dataset=f"../{dataset.pk}/artifacts/dataset", model=Choice(name="lenet5")).model_dump(mode="json")
    job = Job.objects.create(
        verb="train", status=status, spec=spec, title=title, owner=owner, private=private, wants=["any"]
    )
    Attempt.objects.create(job=job, n=1, fence=1, host="here", started_seq=1, total_steps=100, steps_per_epoch=10)
    if n_events:
        record(job, n_events)
    return job


def envelope(seq):
    at = BEGAN + timedelta(seconds=seq)
    return Envelope(seq=seq, at=at, event=Scalars(step=seq, values={"train/loss": 1 / seq}))


def record(job, n_events):
    """Append events to the job's file and move the cursor, as the supervisor does; the stream hears nothing."""
    path = storage().job(job.pk).events_path
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [envelope(seq) for seq in range(job.last_seq + 1, job.last_seq + n_events + 1)]
    with path.open("a") as file:
        file.writelines(each.model_dump_json() + "\n" for each in made)
    job.last_seq += n_events
    Job.objects.filter(pk=job.pk).update(last_seq=job.last_seq)
    return made
