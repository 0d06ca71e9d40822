"""Exports as the engine would have left them, without an engine: folders with a true report, and their rows."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image

from engine.store.predictions import Prediction, PredictionsWriter
from jobs.models import Artifact, Job, JobInput
from jobs.storage import storage
from wire.exports import (
    MEASURED_BATCHES,
    Agreement,
    ExportedFile,
    ExportReport,
    Failed,
    FileRole,
    GoldenImage,
    InputProfile,
    Interval,
    KeptLayer,
    Latency,
    NotRun,
    Passed,
    Quantisation,
    Speed,
)
from wire.layout import ExportDir, Storage
from wire.specs import CheckpointRef, Choice, ExportSpec

MADE_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLASSES = ("cat", "=dog", "<b>bird</b>")
LOST = "It loses 3.20 points of accuracy; 1.00 is the limit"
NO_GPU = "no CUDA device"
CHECKPOINT = CheckpointRef(
    path="../1/artifacts/checkpoints/step-40.pt", sha256="c" * 64, name="step-40", step=40, epoch=4.0,
    chosen="Best val/top1, 91.20 %",
)  # fmt: skip


def write_export(
    root: Path,
    job: Job,
    *,
    backend: str = "onnx",
    precision: str = "fp32",
    outcome: str = "passed",
    predictions: Sequence[Prediction] | None = None,
    **changes: Any,
) -> ExportReport:
    """Write what this job would leave below the data directory ``root``, and announce it as its artifact.

    Args:
        root: of the storage.
        job: an export.
        backend: name of a card.
        precision: ``fp32``, ``fp16`` or ``int8``.
        outcome: ``passed``, ``failed`` or ``not_run``.
        predictions: answers about single images, to be compared; None writes no such file.
        changes: fields of the report that are to be different.
    """
    place = Storage(root).job(job.pk)
    ref = job.spec.get("checkpoint")
    about: dict[str, Any] = {"run": job.part_of_id, "dataset": _dataset_of(job)}
    if ref is not None:
        about["checkpoint"] = CheckpointRef.model_validate(ref)
    report = write_export_folder(
        ExportDir(place.export_dir), backend=backend, precision=precision, outcome=outcome, predictions=predictions,
        **about | changes,
    )  # fmt: skip
    Artifact.objects.update_or_create(
        made_by=job,
        name="export",
        defaults={
            "kind": "export",
            "path": place.export_dir.relative_to(place.path).as_posix(),
            "sha256": hashlib.sha256(ExportDir(place.export_dir).report_path.read_bytes()).hexdigest(),
            "bytes": report.bytes,
            "meta": meta_of(report),
        },
    )
    return report


def export_job(
    owner: Any,
    run: Job,
    checkpoint: Artifact | None = None,
    *,
    backend: str = "onnx",
    precision: str = "fp32",
    outcome: str = "passed",
    status: str = "succeeded",
    private: bool = False,
    spec: dict[str, Any] | None = None,
    predictions: Sequence[Prediction] | None = None,
    **columns: Any,
) -> Job:
    """An export of the run; one that succeeded has its files."""
    reference = CHECKPOINT
    if checkpoint is not None:
        reference = CHECKPOINT.model_copy(
            update={
                "path": f"../{checkpoint.made_by_id}/{checkpoint.path}", "sha256": checkpoint.sha256,
                "name": checkpoint.name, "step": checkpoint.meta["step"], "epoch": checkpoint.meta["epoch"],
            }
        )  # fmt: skip
    made = ExportSpec(
        checkpoint=None if status == "waiting" else reference,
        dataset=run.spec["dataset"],
        backend=Choice(name=backend),
        precision=precision,
        **spec or {},
    )
    job = Job.objects.create(
        verb="export", status=status, spec=made.model_dump(mode="json"), owner=owner, private=private, part_of=run,
        **{"title": f"{backend} {precision} of {run.title}", "wants": ["cpu"], **columns},
    )  # fmt: skip
    if checkpoint is not None and status != "waiting":
        JobInput.objects.create(job=job, artifact=checkpoint, role="checkpoint")
    if status == "succeeded":
        root = storage().root
        write_export(root, job, backend=backend, precision=precision, outcome=outcome, predictions=predictions)
    return job


def write_export_folder(
    folder: ExportDir,
    *,
    backend: str = "onnx",
    precision: str = "fp32",
    outcome: str = "passed",
    predictions: Sequence[Prediction] | None = None,
    **changes: Any,
) -> ExportReport:
    """Write files with true hashes and their report; no database. The models in it are no models."""
    folder.path.mkdir(parents=True)
    is_run = outcome != "not_run"
    files = _write_models(folder, backend, precision)
    golden = _write_golden(folder, is_measured=is_run)
    files += [_file(folder, "golden", folder.path / image.path) for image in golden]
    if predictions is not None:
        with PredictionsWriter(folder.predictions_path, changes.get("classes", CLASSES)) as writer:
            writer.add(predictions)
            writer.finish()
    fields: dict[str, Any] = {
        "checkpoint": CHECKPOINT, "run": 1, "dataset": 2, "dataset_name": "Digits", "samples_sha256": "5" * 64,
        "classes": CLASSES, "model": Choice(name="lenet5"), "n_parameters": 61_000, "image_px": 32,
        "resize": "squash", "colour": "grey", "mean": (0.3,), "std": (0.4,),
        "backend": Choice(name=backend), "precision": precision,
        "verdict": _verdict(outcome), "agreement": _agreement(outcome) if is_run else None,
        "speed": _speed() if is_run else None, "quantisation": _quantisation() if precision == "int8" else None,
        "profile": _PROFILE if backend == "tensorrt_rtx" else None, "files": tuple(files), "golden": tuple(golden),
        "bytes": sum(file.bytes for file in files if file.role in {"model", "engine", "weights"}), "build_s": 1.25,
        "versions": {"onnx": "1.23.2", "torch": "2.15.0"}, "created_at": MADE_AT,
    }  # fmt: skip
    report = ExportReport.model_validate(fields | changes)
    folder.report_path.write_text(report.model_dump_json(indent=2))
    return report


def meta_of(report: ExportReport) -> dict[str, Any]:
    """What the engine announces with an export."""
    agreement, speed, verdict = report.agreement, report.speed, report.verdict
    by_batch = {} if speed is None else {latency.batch: latency for latency in speed.latencies}
    one, many = by_batch.get(1), by_batch.get(32)
    reasons: list[str] = []
    if isinstance(verdict, Failed):
        reasons = list(verdict.reasons)
    elif isinstance(verdict, NotRun):
        reasons = [verdict.reason]
    return {
        "backend": report.backend.name,
        "precision": report.precision,
        "outcome": verdict.outcome,
        "reasons": reasons,
        "split": agreement and agreement.split,
        "n_images": agreement and agreement.n_images,
        "accuracy": agreement and agreement.accuracy,
        "reference_accuracy": agreement and agreement.reference_accuracy,
        "change_points": agreement and agreement.change_points,
        "change_lower": agreement and agreement.change_interval.lower,
        "change_upper": agreement and agreement.change_interval.upper,
        "agreement": agreement and agreement.agreement,
        "max_difference": agreement and agreement.max_difference,
        "p50_ms": one and one.p50_ms,
        "p95_ms": one and one.p95_ms,
        "images_per_s": many and many.images_per_s,
        "bytes": report.bytes,
        "build_s": report.build_s,
        "device": speed and speed.device,
        "compute_capabilities": [file.compute_capability for file in report.files if file.compute_capability],
        "n_kept": report.quantisation and len(report.quantisation.kept),
    }


_PROFILE = InputProfile(least_batch=1, typical_batch=8, most_batch=32, least_px=8, typical_px=32, most_px=1024)


def _dataset_of(job: Job) -> int:
    return int(str(job.spec["dataset"]).split("/")[1])


def _write_models(folder: ExportDir, backend: str, precision: str) -> list[ExportedFile]:
    def write(role: FileRole, path: Path, capability: str = "") -> ExportedFile:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(f"{backend} {precision} {capability}".encode() * 20)
        return _file(folder, role, path, capability)

    if backend == "pytorch":
        return [write("weights", folder.weights_path)]
    if backend == "tensorrt_rtx":
        engines = [write("engine", folder.engine_path(capability), capability) for capability in ("8.6", "8.9")]
        return [*engines, write("source", folder.model_path)]
    return [write("model", folder.model_path)]


def _write_golden(folder: ExportDir, *, is_measured: bool) -> list[GoldenImage]:
    made = []
    for n, label in enumerate((0, 1)):
        path = folder.golden_path(n)
        path.parent.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        Image.new("RGB", (20 + n, 16), (200 * n, 90, 40)).save(buffer, "PNG")
        path.write_bytes(buffer.getvalue())
        shares = tuple(0.8 if each == label else 0.1 for each in range(len(CLASSES)))
        made.append(
            GoldenImage(
                path=path.relative_to(folder.path).as_posix(),
                label=label,
                name=f"{CLASSES[label]}/{n}.png",
                probabilities=shares,
                tolerance=1e-3,
                is_measured=is_measured,
            )
        )
    return made


def _file(folder: ExportDir, role: FileRole, path: Path, capability: str = "") -> ExportedFile:
    content = path.read_bytes()
    return ExportedFile(
        role=role, path=path.relative_to(folder.path).as_posix(), sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content), crc32=zlib.crc32(content), compute_capability=capability,
    )  # fmt: skip


def _verdict(outcome: str) -> Passed | Failed | NotRun:
    if outcome == "failed":
        return Failed(reasons=(LOST,))
    return NotRun(reason=NO_GPU) if outcome == "not_run" else Passed()


def _agreement(outcome: str) -> Agreement:
    change = -3.2 if outcome == "failed" else -0.1
    return Agreement(
        split="val", n_images=1000, n_of=3000, seed=0, accuracy=0.912 + change / 100,
        accuracy_interval=Interval(lower=0.89, upper=0.93), reference_accuracy=0.912, change_points=change,
        change_interval=Interval(lower=change - 0.4, upper=change + 0.4), agreement=0.996, max_difference=0.02,
        mean_difference=0.001,
    )  # fmt: skip


def _speed() -> Speed:
    latencies = tuple(
        Latency(batch=batch, n_runs=50, p50_ms=0.5 * batch, p95_ms=0.6 * batch, p99_ms=0.9 * batch, images_per_s=1900.0)
        for batch in MEASURED_BATCHES
    )
    return Speed(device="CPU (Test)", threads=2, image_px=32, load_ms=12.0, first_ms=3.0, latencies=latencies)


def _quantisation() -> Quantisation:
    kept = (
        KeptLayer(name="conv1", why="asked"),
        KeptLayer(name="fc3", why="hurt", agreement=0.91),
    )
    return Quantisation(n_images=256, seed=0, n_layers=5, kept=kept)
