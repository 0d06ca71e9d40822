"""Everything that pages and the API read. Nothing here changes a row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import (
    Case,
    DurationField,
    Expression,
    ExpressionWrapper,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Now
from pydantic import BaseModel

from engine.catalog import model_cards
from jobs.access import visible_jobs
from jobs.curves import CurvesSnapshot, curves_read
from jobs.devices import Stranger, present
from jobs.eventlog import events_after
from jobs.lineage import dataset_spec_path
from jobs.logs import LogChunk, log_read
from jobs.models import Artifact, Attempt, Device, Job, JobInput
from jobs.states import ENDED, Status
from jobs.summaries import JobError, JobRef, JobSummary, job_summary, summaries_of
from wire.errors import SpecInvalid

__all__ = [
    "CurvesSnapshot",
    "DeviceInfo",
    "JobError",
    "JobRef",
    "JobSummary",
    "LogChunk",
    "artifacts_of",
    "checkpoints_of",
    "curves_read",
    "datasets_of",
    "devices_list",
    "events_after",
    "job_summary",
    "jobs_of",
    "log_read",
    "notices_of",
    "runs_of",
    "timeline_of",
]

_FIRST_DEVICE = Attempt.objects.filter(job=OuterRef("pk")).order_by("-n").values(first_device=KT("devices__0"))[:1]

_SPAN = ExpressionWrapper(Coalesce("ended_at", Now()) - F("started_at"), output_field=DurationField())
_WORKED = (
    Attempt.objects.filter(job=OuterRef("pk")).order_by().values("job").annotate(worked=Sum(_SPAN)).values("worked")
)

MOST_WORDS = 20
"""Of a search; each is a condition, and SQLite limits how many a query may have."""
SORTS: dict[str, Expression | F | Subquery] = {
    "created": F("created_at"),
    "started": F("started_at"),
    "ended": F("ended_at"),
    "title": F("title"),
    "status": F("status"),
    "progress": Case(When(total__gt=0, then=F("done") * 1.0 / F("total")), output_field=FloatField()),
    "dataset": F("dataset_title"),
    "model": F("spec__model__name"),
    "device": Subquery(_FIRST_DEVICE),
    "owner": F("owner__username"),
    "best": F("best_value"),
    "disk": F("disk_bytes"),
    "duration": Subquery(_WORKED),
}

_DATASET_TITLE = JobInput.objects.filter(job=OuterRef("pk"), role="dataset").values("artifact__made_by__title")[:1]


def jobs_of(
    user: User,
    *,
    verb: str = "",
    part_of: int | None = None,
    q: str = "",
    status: str = "",
    sort: str = "-created",
    limit: int | None = None,
) -> list[JobSummary]:
    """Jobs that the user may see.

    Args:
        user: for whom.
        verb: ``train``, ``import``, ``evaluate``, ``classify`` or ``export``; empty means the first two alone.
        part_of: id of a run: only what was made of it.
        q: words that each must stand in title, owner, model, dataset or notes, or ``#<id>``.
        status: one or several states with commas between; ``active`` means all that have not ended.
        sort: a key of ``SORTS``, with ``-`` before it for descending; rows without a value come last.
        limit: how many at most.

    Raises:
        SpecInvalid: an unknown state or sort key.
    """
    jobs: QuerySet[Job] = visible_jobs(user).annotate(dataset_title=Subquery(_DATASET_TITLE))
    if verb:
        jobs = jobs.filter(verb=verb)
    elif part_of is None:
        jobs = jobs.filter(part_of=None)
    if part_of is not None:
        jobs = jobs.filter(part_of=part_of)
    jobs = _sorted(_with_status(_matching(jobs, q, user), status), sort)
    return summaries_of(jobs[:limit], user)


def runs_of(user: User, *, q: str = "", status: str = "", sort: str = "-created") -> list[JobSummary]:
    return jobs_of(user, verb="train", q=q, status=status, sort=sort)


def datasets_of(user: User, *, q: str = "", status: str = "", sort: str = "-created") -> list[JobSummary]:
    """Imports; those that succeeded carry ``dataset_meta``."""
    return jobs_of(user, verb="import", q=q, status=status, sort=sort)


def _matching(jobs: QuerySet[Job], q: str, user: User) -> QuerySet[Job]:
    for word in q.split()[:MOST_WORDS]:
        models = [name for name, card in model_cards().items() if word.lower() in card.label.lower()]
        imports = visible_jobs(user).filter(verb="import", title__icontains=word).values_list("pk", flat=True)
        found = (
            Q(title__icontains=word)
            | Q(owner__username__icontains=word)
            | Q(notes__icontains=word)
            | Q(spec__model__name__icontains=word)
            | Q(spec__model__name__in=models)
            # By the path, not by ``JobInput``: a run that waits for its dataset has none yet.
            | Q(spec__dataset__in=[dataset_spec_path(import_id) for import_id in imports])
        )
        if word.removeprefix("#").isdecimal() and len(word) < 18:
            found |= Q(pk=int(word.removeprefix("#")))
        jobs = jobs.filter(found)
    return jobs


def _with_status(jobs: QuerySet[Job], status: str) -> QuerySet[Job]:
    wanted: set[str] = set()
    for name in filter(None, (part.strip() for part in status.split(","))):
        if name == "active":
            wanted |= set(Status) - ENDED
        elif name in set(Status):
            wanted.add(name)
        else:
            raise SpecInvalid(f"There is no state {name!r}.", hint=f"Choose of: active, {', '.join(Status)}.")
    return jobs.filter(status__in=wanted) if wanted else jobs


def _sorted(jobs: QuerySet[Job], sort: str) -> QuerySet[Job]:
    key = sort.removeprefix("-")
    if key not in SORTS:
        raise SpecInvalid(f"Cannot sort by {key!r}.", hint=f"Choose of: {', '.join(SORTS)}.")
    column = SORTS[key]
    order = column.desc(nulls_last=True) if sort.startswith("-") else column.asc(nulls_last=True)
    return jobs.order_by(order, "-pk")


class TimelineEntry(BaseModel):
    at: datetime
    before: str
    after: str
    reason: str


def timeline_of(job: Job) -> list[TimelineEntry]:
    return [
        TimelineEntry(at=step.at, before=step.before, after=step.after, reason=step.reason)
        for step in job.transitions.order_by("pk")
    ]


class NoticeInfo(BaseModel):
    seq: int
    at: datetime
    level: str
    code: str
    text: str


def notices_of(job: Job) -> list[NoticeInfo]:
    return [
        NoticeInfo(
            seq=event.seq, at=event.at, level=event.body["level"], code=event.body["code"], text=event.body["text"]
        )
        for event in job.events.filter(kind="notice").order_by("seq")
    ]


class ArtifactInfo(BaseModel):
    id: int
    job: JobRef
    kind: str
    name: str
    bytes: int
    sha256: str
    meta: dict[str, Any]
    created_at: datetime


def _artifact_infos(artifacts: QuerySet[Artifact]) -> list[ArtifactInfo]:
    return [
        ArtifactInfo(
            id=artifact.pk,
            job=JobRef(id=artifact.made_by_id, title=artifact.made_by.title),
            kind=artifact.kind,
            name=artifact.name,
            bytes=artifact.bytes,
            sha256=artifact.sha256,
            meta=artifact.meta,
            created_at=artifact.created_at,
        )
        for artifact in artifacts.filter(trashed_at=None).select_related("made_by").order_by("-created_at", "-pk")
    ]


def artifacts_of(job: Job) -> list[ArtifactInfo]:
    return _artifact_infos(Artifact.objects.filter(made_by=job))


def checkpoints_of(user: User, *, model: str = "") -> list[ArtifactInfo]:
    """Checkpoints that a training may begin from, newest first."""
    ended = visible_jobs(user).filter(status__in=ENDED)  # a run that goes on may still replace what it made
    checkpoints = Artifact.objects.filter(kind="checkpoint", made_by__in=ended)
    if model:
        checkpoints = checkpoints.filter(made_by__spec__model__name=model)
    return _artifact_infos(checkpoints)


class DeviceInfo(BaseModel):
    uuid: str
    kind: str
    name: str
    host: str
    memory_bytes: int
    memory_used_bytes: int
    utilisation_pct: float | None
    temperature_c: float | None
    power_w: float | None
    bf16: bool
    drained: bool
    drained_reason: str
    """Empty where an administrator gave none."""
    warning: str
    """What is not as it should be, and keeps nobody from using it."""
    strangers: list[Stranger]
    """Processes on it that no job of this server started; while there are any, nothing is placed on it."""
    seen_at: datetime
    leased_by: JobRef | None
    """The run that holds it; without its title where the user may not see it."""


def devices_list(user: User | None = None) -> list[DeviceInfo]:
    """Devices that still answer, and those that were taken out of service because they do not; GPUs first.

    Cost: one query.
    """
    devices = Device.objects.select_related("lease__attempt__job").order_by("host", "-kind", "name", "uuid")
    return [
        DeviceInfo(
            uuid=device.uuid,
            kind=device.kind,
            name=device.name,
            host=device.host,
            memory_bytes=device.memory_bytes,
            memory_used_bytes=device.memory_used_bytes,
            utilisation_pct=device.utilisation_pct,
            temperature_c=device.temperature_c,
            power_w=device.power_w,
            bf16=device.bf16,
            drained=device.drained,
            drained_reason=device.drained_reason,
            warning=device.warning,
            strangers=device.strangers,
            seen_at=device.seen_at,
            leased_by=_holder(device, user),
        )
        for device in present(devices, also_lost=True)
    ]


def _holder(device: Device, user: User | None) -> JobRef | None:
    if not hasattr(device, "lease"):
        return None
    job = device.lease.attempt.job
    hidden = job.private and not (user and (user.is_staff or job.owner_id == user.pk))
    return JobRef(id=job.pk, title="a private run" if hidden else job.title)
