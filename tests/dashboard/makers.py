"""Jobs as the recorder would have left them, for tests that only read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine.store.predictions import Prediction, PredictionsWriter, Thumbnail
from jobs.models import Artifact, Attempt, Job, JobInput
from jobs.storage import storage
from wire.evaluation import ClassScore, Confusion, EvaluationReport, ReliabilityBin, SplitEvaluation
from wire.events import Envelope, Scalars
from wire.layout import PredictionsDir
from wire.specs import (
    CheckpointRef,
    Choice,
    ClassifySpec,
    EvaluateSpec,
    FromSample,
    ImportSpec,
    TrainSpec,
)

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


CLASSES = ("cat", "=dog", "<b>bird</b>")
"""Of what the makers below predict: names as people give them."""
PIXEL_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001"
    "48afa4710000000049454e44ae426082"
)


def checkpoint_of(run, step=40):
    """The best checkpoint of the run."""
    Job.objects.filter(pk=run.pk).update(best_series="val/top1", best_value=91.2, best_step=step)
    meta = {"step": step, "epoch": step / 10, "classes": CLASSES, "n_classes": len(CLASSES)}
    return Artifact.objects.create(
        made_by=run, kind="checkpoint", name=f"step-{step}", path=f"artifacts/checkpoints/step-{step}.pt",
        sha256="c" * 64, bytes=5, meta=meta,
    )  # fmt: skip


def _reference(checkpoint):
    return CheckpointRef(
        path=f"../{checkpoint.made_by_id}/{checkpoint.path}", sha256=checkpoint.sha256, name=checkpoint.name,
        step=checkpoint.meta["step"], epoch=checkpoint.meta["epoch"], chosen="Best val/top1, 91.20 %",
    )  # fmt: skip


def evaluation_job(owner, run, checkpoint, *, status="succeeded", private=False):
    """An evaluation of two splits of four images each, with its report and its rows where it succeeded."""
    reference, dataset = _reference(checkpoint), int(run.spec["dataset"].split("/")[1])
    spec = EvaluateSpec(checkpoint=reference, dataset=run.spec["dataset"])
    job = Job.objects.create(
        verb="evaluate", status=status, spec=spec.model_dump(mode="json"), title=f"Evaluation of {run.title}",
        owner=owner, private=private, wants=["any"], part_of=run,
    )  # fmt: skip
    JobInput.objects.create(job=job, artifact=checkpoint, role="checkpoint")
    if status == "succeeded":
        folder = PredictionsDir(storage().job(job.pk).evaluation_dir)
        write_predictions(folder, [*_predictions("val", 1), *_predictions("test", 5)])
        report = EvaluationReport(
            checkpoint=reference, run=run.pk, dataset=dataset, dataset_name="Digits", samples_sha256="5" * 64,
            classes=CLASSES, splits=(split_scores("val"), split_scores("test")), device="CPU", created_at=BEGAN,
        )  # fmt: skip
        folder.report_path.write_text(report.model_dump_json())
        meta = {"dataset_name": "Digits", "splits": {"val": {"top1": 0.5, "n_images": 4}}}
        Artifact.objects.create(
            made_by=job, kind="report", name="evaluation", path="artifacts/evaluation", sha256="e" * 64, bytes=9,
            meta=meta,
        )  # fmt: skip
    return job


def classification_job(owner, run, checkpoint, *, status="succeeded", private=False):
    """A classification of four images, of which the last could not be read."""
    spec = ClassifySpec(checkpoint=_reference(checkpoint), source=FromSample(name="digits"))
    job = Job.objects.create(
        verb="classify", status=status, spec=spec.model_dump(mode="json"), title=f"Digits classified by {run.title}",
        owner=owner, private=private, part_of=run,
    )  # fmt: skip
    JobInput.objects.create(job=job, artifact=checkpoint, role="checkpoint")
    if status == "succeeded":
        folder = PredictionsDir(storage().job(job.pk).classification_dir)
        write_predictions(folder, _predictions(None, 1), thumbnails={1: Thumbnail(PIXEL_PNG, "image/png")})
        Artifact.objects.create(
            made_by=job, kind="predictions", name="classification", path="artifacts/classification", sha256="e" * 64,
            bytes=9, meta={"n_images": 4},
        )  # fmt: skip
    return job


def write_predictions(folder, predictions, *, thumbnails=None):
    folder.path.mkdir(parents=True)
    with PredictionsWriter(folder.predictions_path, CLASSES) as writer:
        writer.add(predictions)
        for prediction_id, thumbnail in (thumbnails or {}).items():
            writer.add_thumbnail(prediction_id, thumbnail)
        writer.finish()


def _predictions(split, first_id):
    """Two right answers, one wrong and sure of itself, and one image that could not be read."""

    def one(n, name, label, predicted, share, loss):
        other = (predicted + 1) % len(CLASSES)
        top = ((predicted, share), (other, round(1 - share, 6)))
        truth = share if label == predicted else 0.01
        return Prediction(first_id + n, split, n, name, label, predicted, share, truth, loss, None, top)

    broken = Prediction(first_id + 3, split, 3, "d%.png", 2, None, None, None, None, "is no image")
    return [
        one(0, "a.png", 0, 0, 0.9, 0.11),
        one(1, "-b_.png", 1, 1, 0.8, 0.22),
        one(2, "c.png", 1, 0, 0.95, 4.6),
        broken,
    ]


def split_scores(split):
    scores = [
        ClassScore(label=label, name=name, support=1, n_predicted=1, precision=0.5, recall=1.0, f1=0.67)
        for label, name in enumerate(CLASSES)
    ]
    bins = [
        ReliabilityBin(lower=n / 15, upper=(n + 1) / 15, n_images=int(n > 11), confidence=None, accuracy=None)
        for n in range(15)
    ]
    return SplitEvaluation(
        split=split, n_images=3, loss=1.64, top1=2 / 3, top5=None, macro_precision=0.5, macro_recall=0.5,
        macro_f1=0.4, ece=0.28, classes=scores, reliability=bins,
        confusion=[
            Confusion(label=0, predicted=0, n_images=1),
            Confusion(label=1, predicted=0, n_images=1),
            Confusion(label=1, predicted=1, n_images=1),
        ],
    )  # fmt: skip
