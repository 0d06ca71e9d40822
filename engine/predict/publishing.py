"""How a folder becomes an artifact: whole and durable first, then in its place, then announced."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any, Literal

from engine.context import Context
from engine.store.disk import fsync_path
from wire.events import ArtifactMade
from wire.layout import PredictionsDir


def clean(context: Context, target: Path) -> Path:
    """An empty folder to write in; what an earlier attempt left, also what it could not announce any more, is gone."""
    for folder in (context.job.scratch_dir, target):
        shutil.rmtree(folder, ignore_errors=True)
    beside = context.job.scratch_dir / target.name
    beside.mkdir(parents=True)
    return beside


def publish(
    context: Context,
    beside: Path,
    target: Path,
    *,
    artifact: Literal["report", "predictions", "export"],
    meta: dict[str, Any],
) -> None:
    """Move the complete folder to its place and announce it; events first, so that none is behind the artifact.

    The hash is that of the report, or where there is none of the predictions.
    """
    paths = [*beside.rglob("*")]
    for path in (*paths, beside):
        fsync_path(path)
    folder = PredictionsDir(beside)
    with (folder.predictions_path if artifact == "predictions" else folder.report_path).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    n_bytes = sum(path.stat().st_size for path in paths if path.is_file())
    target.parent.mkdir(parents=True, exist_ok=True)
    beside.rename(target)
    fsync_path(target.parent)
    context.sink.sync()
    context.sink.emit(
        ArtifactMade(
            artifact=artifact,
            name=target.name,
            path=target.relative_to(context.job.path).as_posix(),
            sha256=sha256,
            bytes=n_bytes,
            meta=meta,
        )
    )
    context.sink.sync()


def job_id_of(path: Path) -> int | None:
    """Which job an artifact belongs to; None where it lies in no data directory."""
    for folder in path.parents:
        if folder.parent.name == "jobs" and folder.name.isdecimal():
            return int(folder.name)
    return None
