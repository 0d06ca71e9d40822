"""What an evaluation says: the report that is kept, the sentences beside its numbers, and what pages show of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from engine.predict.matching import SPLIT_LABELS, Note
from engine.predict.publishing import job_id_of
from engine.predict.session import Session
from wire.evaluation import EvaluationReport, SplitEvaluation
from wire.layout import JobDir
from wire.manifests import DatasetManifest, SplitName
from wire.specs import EvaluateSpec


def make_report(
    spec: EvaluateSpec,
    job: JobDir,
    session: Session,
    manifest: DatasetManifest,
    splits: Sequence[SplitEvaluation],
    *,
    notes: Sequence[Note],
    device: str,
) -> EvaluationReport:
    return EvaluationReport(
        checkpoint=spec.checkpoint,
        run=job_id_of(job.resolve(spec.checkpoint.path)),
        dataset=job_id_of(job.resolve(spec.dataset)),
        dataset_name=manifest.name,
        samples_sha256=manifest.samples_sha256,
        classes=session.classes,
        splits=tuple(splits),
        notes=tuple(note.text for note in notes),
        device=device,
        created_at=datetime.now(UTC),
    )


def make_meta(report: EvaluationReport) -> dict[str, Any]:
    """What pages and lists show without opening the folder."""
    shown = {"n_images", "loss", "top1", "top5", "macro_f1", "ece"}
    return {
        "checkpoint": report.checkpoint.model_dump(),
        "run": report.run,
        "dataset": report.dataset,
        "dataset_name": report.dataset_name,
        "n_classes": len(report.classes),
        "device": report.device,
        "splits": {split.split: split.model_dump(include=shown) for split in report.splits},
        "notes": list(report.notes),
    }


def split_note(manifest: DatasetManifest, split: SplitName, *, known: bool = False) -> Note:
    """That a split is left out; ``known`` where it has images, but none of a class that the checkpoint knows."""
    of_what = "images of a class that the checkpoint knows" if known else "images"
    text = f"The dataset {manifest.name!r} has no {SPLIT_LABELS[split]} {of_what}."
    return Note(f"evaluation.no_{split}", text, "warning" if known else "info")


def precision_note(session: Session) -> Note:
    text = (
        f"Computed in {session.precision}; the training validated in {session.trained_precision}, so the numbers may "
        "differ slightly from its curves."
    )
    return Note("evaluation.precision", text)


def not_finite_note(split: SplitName, n_without: int, n_images: int) -> Note:
    text = (
        f"For {n_without:,} of {n_images:,} {SPLIT_LABELS[split]} images the network's outputs are not finite; "
        "they count as wrong, and the loss is unknown."
    )
    return Note("evaluation.not_finite", text, "warning")
