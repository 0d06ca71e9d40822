"""What an export says of itself: the report that is kept, its files with their hashes, and what lists show of it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import torch

from engine.data.normalise import channel_values
from engine.export.backends import Made
from engine.predict.publishing import job_id_of
from engine.predict.session import Session
from wire.exports import (
    Agreement,
    ExportedFile,
    ExportReport,
    Failed,
    FileRole,
    GoldenImage,
    NotRun,
    Quantisation,
    Speed,
    Verdict,
)
from wire.layout import ExportDir, JobDir
from wire.manifests import DatasetManifest
from wire.specs import CheckpointRef, Choice, ExportSpec

_DELIVERED: Final[tuple[FileRole, ...]] = ("model", "engine", "weights")
_READ_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the steps of an export came to."""

    folder: ExportDir
    made: Made
    verdict: Verdict
    agreement: Agreement | None
    speed: Speed | None
    quantisation: Quantisation | None
    golden: tuple[GoldenImage, ...]
    build_s: float
    notes: Sequence[str]
    versions: dict[str, str]


def make_report(
    spec: ExportSpec,
    checkpoint: CheckpointRef,
    job: JobDir,
    session: Session,
    manifest: DatasetManifest,
    findings: Findings,
) -> ExportReport:
    """All of it; reads every file of the export once."""
    n_channels = 1 if session.colour == "grey" else 3
    made = findings.made
    files = exported_files(made, findings.golden, findings.folder)
    return ExportReport(
        checkpoint=checkpoint,
        run=job_id_of(job.resolve(checkpoint.path)),
        dataset=job_id_of(job.resolve(spec.dataset)),
        dataset_name=manifest.name,
        samples_sha256=manifest.samples_sha256,
        classes=session.classes,
        model=Choice(name=session.model, options=session.model_options),
        n_parameters=session.n_parameters,
        image_px=session.image_px,
        resize=session.resize,
        colour=session.colour,
        mean=tuple(channel_values(session.mean, n_channels)),
        std=tuple(channel_values(session.std, n_channels)),
        backend=spec.backend,
        precision=spec.precision,
        verdict=findings.verdict,
        agreement=findings.agreement,
        speed=findings.speed,
        quantisation=findings.quantisation,
        profile=made.profile,
        files=files,
        golden=findings.golden,
        bytes=sum(file.bytes for file in files if file.role in _DELIVERED),
        build_s=findings.build_s,
        notes=tuple(dict.fromkeys(findings.notes)),
        versions=findings.versions,
        created_at=datetime.now(UTC),
    )


def make_meta(report: ExportReport) -> dict[str, Any]:
    """What pages and lists show without opening the folder; None where it was not measured."""
    agreement, speed = report.agreement, report.speed
    latency_of = {latency.batch: latency for latency in speed.latencies} if speed else {}
    one, most = latency_of.get(1), latency_of.get(32)
    return {
        "backend": report.backend.name,
        "precision": report.precision,
        "outcome": report.verdict.outcome,
        "reasons": reasons(report.verdict),
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
        "images_per_s": most and most.images_per_s,
        "bytes": report.bytes,
        "build_s": report.build_s,
        "device": speed and speed.device,
        "compute_capabilities": [file.compute_capability for file in report.files if file.compute_capability],
        "n_kept": len(report.quantisation.kept) if report.quantisation else None,
    }


def reasons(verdict: Verdict) -> list[str]:
    """Why it is not passed; empty where it is."""
    if isinstance(verdict, Failed):
        return list(verdict.reasons)
    return [verdict.reason] if isinstance(verdict, NotRun) else []


def exported_files(made: Made, golden: Iterable[GoldenImage], folder: ExportDir) -> tuple[ExportedFile, ...]:
    images: list[tuple[FileRole, Path, str]] = [("golden", folder.path / image.path, "") for image in golden]
    return tuple(_exported_file(*file, folder) for file in (*made.files, *images))


def _exported_file(role: FileRole, path: Path, compute_capability: str, folder: ExportDir) -> ExportedFile:
    sha256, crc32, n_bytes = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            sha256.update(piece)
            crc32 = zlib.crc32(piece, crc32)
            n_bytes += len(piece)
    return ExportedFile(
        role=role,
        path=path.relative_to(folder.path).as_posix(),
        sha256=sha256.hexdigest(),
        bytes=n_bytes,
        crc32=crc32,
        compute_capability=compute_capability,
    )


def all_versions(of_backend: dict[str, str]) -> dict[str, str]:
    """Of Fovea, PyTorch and what the backend names."""
    try:
        fovea = {"fovea": version("fovea")}
    except PackageNotFoundError:  # run from a checkout that was not installed
        fovea = {}
    return {**fovea, "torch": str(torch.__version__), **of_backend}
