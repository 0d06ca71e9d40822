"""Runs that have ended, with the checkpoints that they left, and what was made of those."""

from __future__ import annotations

from django.utils import timezone

from jobs.models import Artifact, Job
from jobs.states import Status

COUNTS = {"train": 1200, "val": 300, "test": 297}


def finished(job, status=Status.SUCCEEDED, **columns):
    Job.objects.filter(pk=job.pk).update(ended_at=timezone.now(), status=status, **columns)
    job.refresh_from_db()
    return job


def checkpoint(run, step, **columns):
    meta = {"step": step, "epoch": step / 10, "epochs_done": step // 10, "classes": ["0", "1"], "n_classes": 2}
    return Artifact.objects.create(
        made_by=run, kind="checkpoint", name=f"step-{step}", path=f"artifacts/checkpoints/step-{step}.pt",
        sha256=f"{step:064}", bytes=5, meta=meta, **columns,
    )  # fmt: skip
