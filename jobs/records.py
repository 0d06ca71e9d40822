"""``record.json`` in a job's folder: what the database knows of the job and no other file says.

It is written after each transaction that changed the row, by whoever changed it. What events tell (curves, artifacts,
how far a job is) is left out: ``jobs.rebuild`` plays them again. So a database that is lost can be made anew.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import Error, models

from jobs.models import Job
from jobs.storage import storage
from wire.layout import JobDir

FORMAT: Final = 1
MOST_TRIES = 5
TOLD_BY_EVENTS: Final = frozenset({"last_seq", "stage", "done", "total", "best_series", "best_value", "best_step"})
"""Columns of a job that are as old as its last event."""
BESIDE: Final = ".record."
"""How the names of files begin that are being written."""
_AT_ONCE = 200

log = logging.getLogger(__name__)


def keep(job_id: int) -> None:
    """Write the job's record if it says anything new. Cost: about fourteen small queries, and one fsync.

    Two processes may do this at once, and the one that read first may write last. So each looks at the rows again
    after writing: whoever wrote last has then seen the last change. Nothing is raised: the change itself is made, and
    what could not be written is at the next change, or at the next start.
    """
    try:
        for _ in range(MOST_TRIES):
            body = _body_of(job_id)
            if body is None or (_write(job_id, body) and _body_of(job_id) == body):
                return
    except (OSError, Error) as error:
        log.warning("the record of job %s is not up to date: %s", job_id, error)


def keep_all() -> int:
    """Write every record that is missing or behind. Gives how many. Cost: a few queries for each 200 jobs."""
    n_written = 0
    for job in _with_rows(Job.objects.order_by("pk")).iterator(chunk_size=_AT_ONCE):
        body = _encoded(record_of(job))
        if _read(_place(job.pk).record_path) != body:
            keep(job.pk)
            n_written += 1
    return n_written


def behind() -> Iterator[int]:
    """Jobs whose record is missing or says something else than the rows. Cost: as ``keep_all``."""
    for job in _with_rows(Job.objects.order_by("pk")).iterator(chunk_size=_AT_ONCE):
        if _read(_place(job.pk).record_path) != _encoded(record_of(job)):
            yield job.pk


def record_of(job: Job) -> dict[str, Any]:
    """Everything that is written; users by their names, other rows by their ids."""
    override = getattr(job, "override", None)
    return {
        "format": FORMAT,
        "job": columns_of(job, leave_out=TOLD_BY_EVENTS),
        "artifacts": [{"id": made.pk, "name": made.name} for made in _by_id(job.artifacts.all())],
        "inputs": [
            {"id": used.pk, "role": used.role, "job": used.artifact.made_by_id, "artifact": used.artifact.name}
            for used in _by_id(job.inputs.all())
        ],
        "transitions": [columns_of(step, leave_out={"job"}) for step in _by_id(job.transitions.all())],
        "attempts": [columns_of(attempt, leave_out={"job"}) for attempt in _by_id(job.attempts.all())],
        "override": None if override is None else columns_of(override, leave_out={"job"}),
    }


def columns_of(row: models.Model, *, leave_out: Iterable[str] = ()) -> dict[str, Any]:
    """By the names of the model's fields, so that a column that is added is kept without a further word."""
    left_out = set(leave_out)
    fields = [field for field in row._meta.concrete_fields if field.name not in left_out]
    return {field.name: _plain(row, field) for field in fields}


def _plain(row: models.Model, field: models.Field[Any, Any]) -> Any:
    if field.remote_field is not None and field.remote_field.model is User:
        user: User | None = getattr(row, field.name)
        return None if user is None else user.username
    value = getattr(row, field.attname)
    return value.isoformat() if isinstance(field, models.DateTimeField) and value is not None else value


def _by_id(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row.pk)


def _with_rows(jobs: models.QuerySet[Job]) -> models.QuerySet[Job]:
    people = [field.name for field in Job._meta.concrete_fields if names_a_person(field)]
    return jobs.select_related(*people, "override__by").prefetch_related(
        "artifacts", "inputs__artifact", "transitions", "attempts"
    )


def names_a_person(field: models.Field[Any, Any]) -> bool:
    return field.remote_field is not None and field.remote_field.model is User


def _body_of(job_id: int) -> bytes | None:
    job = _with_rows(Job.objects.filter(pk=job_id)).first()
    return None if job is None else _encoded(record_of(job))


def _encoded(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, indent=1).encode()


def _place(job_id: int) -> JobDir:
    """The job's folder, which may lie in the trash."""
    places = storage()
    folder, trashed = places.job(job_id), places.trashed(job_id)
    return JobDir(trashed) if trashed.is_dir() and not folder.path.is_dir() else folder


def _write(job_id: int, body: bytes) -> bool:
    """Put it in place, whole or not at all; False where the folder was moved meanwhile."""
    folder = _place(job_id)
    if not folder.path.is_dir():
        folder.path.mkdir(parents=True)
    if _read(folder.record_path) == body:
        return True
    beside = folder.path / f"{BESIDE}{os.getpid()}.{threading.get_native_id()}"
    try:
        with beside.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder.record_path)
    except FileNotFoundError:
        return False
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return True


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
