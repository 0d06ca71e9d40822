"""Why a job failed, in a sentence, with the last lines of its log and what usually mends it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from jobs.causes import Cause, cause_of
from jobs.fixes import Case, Change, change_of
from jobs.logs import last_lines
from jobs.models import Attempt, Job, JobEvent
from jobs.states import Status
from jobs.storage import storage
from wire.specs import TrainSpec

N_LAST_LINES = 12
MOST_STACK_CHARACTERS = 16 * 1024
MICRO_BATCH = "memory.micro_batch"
"""Code of the notice with which a trainer says that it has halved what it computes at once."""


class Fix(BaseModel):
    name: str
    """For ``POST /api/v1/jobs/<id>/mend``."""
    label: str
    change: str
    """From what to what."""


class Diagnosis(BaseModel):
    code: str
    """Of the error, as in ``docs/errors.md``; empty where none was recorded."""
    title: str
    sentence: str
    message: str
    """The error's own words."""
    hint: str
    last_lines: str
    """The end of the log of the last attempt."""
    stacks: str
    """Where each thread stood, if the last attempt hung."""
    fixes: list[Fix]
    """What starts it again as a new run; the first is the usual one."""


def diagnose(job: Job) -> Diagnosis | None:
    """None where nothing went wrong. Cost: two queries, and the end of a log."""
    seen = _look(job)
    if seen is None:
        return None
    # Of a job that was given up the message ends with lines of the log.
    message, _, _ = job.error_message.partition("\n")
    return Diagnosis(
        code=job.error_code,
        title=seen.cause.title,
        sentence=seen.cause.sentence,
        message=message,
        hint=job.error_hint,
        last_lines=seen.last_lines,
        stacks=_stacks(job, seen.attempt),
        fixes=[Fix(name=name, label=change.label, change=change.words) for name, change in _changes(job, seen).items()],
    )


def fixes_of(job: Job) -> dict[str, Change]:
    """What mends this job, by name; empty where it did not fail, or nothing usual helps."""
    seen = _look(job)
    return {} if seen is None else _changes(job, seen)


@dataclass(frozen=True, slots=True)
class _Seen:
    attempt: Attempt | None
    last_lines: str
    cause: Cause


def _look(job: Job) -> _Seen | None:
    if Status(job.status) not in {Status.FAILED, Status.ERRORED}:
        return None
    attempt = job.attempts.order_by("n").last()
    lines = last_lines(job.pk, attempt.n, N_LAST_LINES) if attempt else ""
    cause = cause_of(job.error_code, job.error_message, lines, attempt.signal if attempt else None)
    return _Seen(attempt, lines, cause)


def _changes(job: Job, seen: _Seen) -> dict[str, Change]:
    """The fixes of the cause that fit this job. Only trainings are mended so."""
    if job.verb != "train":
        return {}
    try:
        spec = TrainSpec.model_validate(job.spec)
    except ValidationError:
        return {}
    case = Case(
        spec=spec,
        on_gpu=seen.attempt is not None and any(name.startswith("GPU") for name in seen.attempt.devices),
        wants=tuple(job.wants),
        n_halvings=JobEvent.objects.filter(job=job, kind="notice", body__code=MICRO_BATCH).count(),
    )
    found = ((name, change_of(name, case)) for name in seen.cause.fixes)
    return {name: change for name, change in found if change is not None}


def _stacks(job: Job, attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    try:
        text = storage().job(job.pk).attempt(attempt.n).stacks_path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return text[:MOST_STACK_CHARACTERS]
