"""A run with an evaluation and exports that answered about the same images."""

from __future__ import annotations

from engine.store.predictions import Prediction
from jobs.models import JobInput
from jobs.storage import storage
from tests.dashboard.makers import CLASSES, checkpoint_of, evaluation_job, import_job, training_job
from tests.kits.exported import export_job
from tests.kits.stored import Row, store

N_IMAGES = 30
"""Ids from 1, all of them of the validation split."""


def answers(wrong, *, ids=range(1, N_IMAGES + 1)):
    """Right about every image but ``wrong``, which get the class that follows."""

    def one(place, sample):
        label = sample % len(CLASSES)
        predicted = (label + 1) % len(CLASSES) if sample in wrong else label
        share = 0.5 + sample / 100
        return Prediction(place, "val", sample, f"{sample}.png", label, predicted, share, None, None, None, ())

    return [one(place, sample) for place, sample in enumerate(ids, start=1)]


def compared_run(user, *, title="Mine", pictures=False):
    """Its dataset, the run, a passed ONNX export wrong about 1 to 10, and one in INT8 wrong about 6 to 20."""
    dataset = import_job(user)
    if pictures:
        rows = [Row(f"{n}.png", "val", (n + 1) % 3, b"not looked at", 8, 8) for n in range(N_IMAGES)]
        store(storage().job(dataset.pk).dataset_dir, list(CLASSES), rows, [])
    run = training_job(user, dataset, status="succeeded", title=title)
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    checkpoint = checkpoint_of(run)
    one = export_job(user, run, checkpoint, predictions=answers(range(1, 11)))
    other = export_job(user, run, checkpoint, precision="int8", predictions=answers(range(6, 21)))
    return dataset, run, one, other


def evaluated(user, run):
    """Of two splits with four images each; ids from 0, of which the third was seen by the exports too."""
    return evaluation_job(user, run, run.artifacts.get(kind="checkpoint"))
