"""Which job reads what of which other job: derived from specs, kept as ``JobInput`` rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from jobs import transitions
from jobs.models import Artifact, Job, JobInput
from jobs.states import ENDED, Status
from jobs.storage import storage
from wire.errors import DatasetMissing
from wire.manifests import SplitName

EVALUATED_SPLITS: tuple[SplitName, ...] = ("val", "test")
"""What nothing was learnt from."""
_INPUT = re.compile(r"\.\./(\d+)/")


def dataset_spec_path(import_id: int) -> str:
    """How a training's spec names the dataset that an import makes, even before it is made."""
    job = storage().job(import_id)
    return storage().input_path(import_id, job.dataset_dir.relative_to(job.path).as_posix())


def input_job_id(spec_path: str | None) -> int | None:
    """The job that made the input which a spec names."""
    found = _INPUT.match(spec_path or "")
    return int(found[1]) if found else None


def dataset_job_id(spec: dict[str, Any]) -> int | None:
    return input_job_id(spec.get("dataset"))


def dataset_trained_on(run: Job) -> Artifact | None:
    """None where it was deleted, or the run waits for it still."""
    used = run.inputs.filter(role="dataset", artifact__trashed_at=None).select_related("artifact__made_by").first()
    return None if used is None else used.artifact


def splits_present(dataset: Artifact, of: Sequence[SplitName] = EVALUATED_SPLITS) -> tuple[SplitName, ...]:
    """Those that have images."""
    counts = dataset.meta.get("counts", {})
    return tuple(split for split in of if counts.get(split))


def waiting_for(import_id: int) -> list[Job]:
    return list(Job.objects.filter(status=Status.WAITING, spec__dataset=dataset_spec_path(import_id)))


@transaction.atomic
def wake_dependents(import_id: int) -> list[int]:
    """Queue the jobs that waited for this import, or fail them where it made nothing. Gives the ids of the queued."""
    source = Job.objects.get(pk=import_id)
    if Status(source.status) not in ENDED:
        return []
    dataset = Artifact.objects.filter(made_by=source, kind="dataset", trashed_at=None).first()
    woken = []
    for job in waiting_for(import_id):
        if source.status == Status.SUCCEEDED and dataset is not None:
            if transitions.move(
                job.pk, before=Status.WAITING, after=Status.QUEUED, reason="its dataset is there", wait_reason=""
            ):
                JobInput.objects.get_or_create(job=job, role="dataset", defaults={"artifact": dataset})
                woken.append(job.pk)
        else:
            _fail_for_want_of(job, source)
    return woken


def _fail_for_want_of(job: Job, source: Job) -> None:
    transitions.move(
        job.pk,
        before=Status.WAITING,
        after=Status.FAILED,
        reason="its dataset could not be imported",
        wait_reason="",
        ended_at=source.ended_at,
        error_code=DatasetMissing.code,
        error_message=f"The dataset {source.title} was not imported: the import is {source.status}.",
        error_hint="Import the dataset again, then train on the new one.",
    )
