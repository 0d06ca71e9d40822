"""Rows out of a ``record.json``: the way back from ``jobs.records``."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.utils import timezone

from jobs.loose_ends import note_unknown_attempts
from jobs.models import Artifact, Attempt, ExportOverride, Job, JobInput, Transition
from jobs.records import FORMAT, TOLD_BY_EVENTS, names_a_person
from wire.layout import JobDir


class RecordUnusable(Exception):
    """A folder that cannot become a job. The message says why, without a full stop."""


@dataclass(frozen=True, slots=True)
class Found:
    """A job's folder and what its record says."""

    id: int
    folder: JobDir
    in_trash: bool
    record: Mapping[str, Any]

    @property
    def run_id(self) -> int | None:
        run_id: int | None = self.record["job"].get("part_of")
        return run_id


def read_record(job_id: int, folder: JobDir, *, in_trash: bool) -> Found:
    """Read and check what every record has.

    Raises:
        RecordUnusable: there is none, it cannot be read, or it is another job's or of a newer version.
    """
    try:
        record = json.loads(folder.record_path.read_bytes())
        if record["format"] > FORMAT:
            raise RecordUnusable("its record.json was written by a newer version of Fovea")
        if record["job"]["id"] != job_id:
            raise RecordUnusable(f"its record.json is that of job {record['job']['id']}")
    except FileNotFoundError:
        raise RecordUnusable("it has no record.json") from None
    except OSError as error:
        raise RecordUnusable(f"its record.json cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise RecordUnusable("its record.json is damaged") from None
    return Found(job_id, folder, in_trash, record)


class People:
    """Whoever the records name. Who has no account gets one that nobody can sign in with."""

    def __init__(self) -> None:
        self._users = {user.username: user for user in User.objects.all()}
        self.made: list[str] = []

    def named(self, username: str) -> User:
        if username not in self._users:
            # A password that nobody knows, for an account without one would be taken for an invitation.
            user = User(username=username, is_active=False)
            user.set_password(secrets.token_urlsafe(32))
            user.save()
            self._users[username] = user
            self.made.append(username)
        return self._users[username]


def write_rows(found: Found, people: People, known_ids: AbstractSet[int], *, keep_ids: bool) -> Job:
    """The job with its attempts and transitions; what events tell is left for ``jobs.recorder.replay``.

    Args:
        found: the folder.
        people: who is known.
        known_ids: of the jobs that are there already; those that it names come before it.
        keep_ids: of attempts, transitions and artifacts too; where others may have them by now they get new ones.

    Raises:
        RecordUnusable: nothing of it was written.
    """
    try:
        with transaction.atomic():
            return _write_rows(found, people, known_ids, keep_ids=keep_ids)
    except (ValidationError, IntegrityError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordUnusable(f"its record.json does not fit: {error}") from None


def _write_rows(found: Found, people: People, known_ids: AbstractSet[int], *, keep_ids: bool) -> Job:
    record = found.record
    if found.run_id is not None and found.run_id not in known_ids:
        raise RecordUnusable(f"it is a part of job {found.run_id}, which is not there")
    columns = dict(record["job"])
    if columns["retry_of"] not in known_ids:
        columns["retry_of"] = None
    job: Job = _insert(Job, columns, people)
    if found.in_trash and job.trashed_at is None:
        Job.objects.filter(pk=job.pk).update(trashed_at=timezone.now())
    left_out = frozenset() if keep_ids else frozenset({"id"})
    for step in record["transitions"]:
        _insert(Transition, _without(step, left_out), people, job=job)
    for attempt in record["attempts"]:
        _insert(Attempt, _without(attempt, left_out), people, job=job)
    note_unknown_attempts(job, found.folder)
    for made in record["artifacts"]:
        # Filled by the event that announced it.
        row = _without({"id": made["id"], "name": made["name"]}, left_out)
        Artifact.objects.create(**row, made_by=job, kind="", path="", sha256="", bytes=0)
    if record["override"] is not None:
        _insert(ExportOverride, _without(record["override"], left_out), people, job=job)
    return job


def _without(columns: Mapping[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name not in names}


def write_inputs(found: Found, *, keep_ids: bool) -> list[str]:
    """What the job reads, once all artifacts are there. Gives the names of those that are not."""
    missing = []
    for used in found.record["inputs"]:
        artifact = Artifact.objects.filter(made_by=used["job"], name=used["artifact"]).first()
        if artifact is None:
            missing.append(f"{used['artifact']} of job {used['job']}")
        else:
            row_id = {"id": used["id"]} if keep_ids else {}
            JobInput.objects.create(**row_id, job_id=found.id, artifact=artifact, role=used["role"])
    return missing


def error_columns(found: Found) -> dict[str, str]:
    """What the verdict said, which is more than the last event did."""
    return {name: text for name, text in found.record["job"].items() if name.startswith("error_")}


def _insert(model: type[models.Model], columns: Mapping[str, Any], people: People, **more: models.Model) -> Any:
    fields = {field.name: field for field in model._meta.concrete_fields}
    if unknown := columns.keys() - fields.keys():
        raise RecordUnusable(f"its record.json has {', '.join(sorted(unknown))}, which this version does not know")
    values: dict[str, Any] = dict(more)
    for name, value in columns.items():
        field = fields[name]
        if name in TOLD_BY_EVENTS and model is Job:
            continue
        if value is not None and names_a_person(field):
            values[name] = people.named(value)
        elif field.remote_field is not None:
            values[field.attname] = value
        else:
            values[name] = field.to_python(value)
    row = model(**values)
    row.save(force_insert=True)
    return row
