"""Copies events into the database, once each.

``Job.last_seq`` is the cursor; it moves in the transaction that writes the rows. So whatever is delivered, and however
often, the rows are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, assert_never

from django.db import transaction
from django.db.models import OuterRef, Q, Subquery

from jobs import transitions
from jobs.curves import BLOCK_POINTS, POINT
from jobs.models import Artifact, Attempt, Curve, Job, JobEvent, Series
from jobs.states import Status
from wire.events import (
    ArtifactDropped,
    ArtifactMade,
    AttemptStarted,
    CheckpointBest,
    Envelope,
    Notice,
    Progress,
    RunEnded,
    Scalars,
    SeriesInfo,
)

_NAN = float("nan")


class StaleFence(Exception):
    """The attempt is over, or a newer one owns the job: this one may not write any more."""


class EventGap(Exception):
    """An event is missing between the cursor and what was delivered."""


@transaction.atomic
def record(attempt: Attempt, envelopes: Sequence[Envelope]) -> list[Envelope]:
    """Write what is new, and give it back. Cost: one transaction of about ten statements, whatever the number.

    Raises:
        StaleFence: the attempt is closed, or a newer one exists.
        EventGap: the first new event does not follow the cursor.
    """
    job = Job.objects.select_for_update().get(pk=attempt.job_id)
    # The lock is what closing takes as well, so that nobody closes the attempt while this is written.
    is_over = Q(fence__gt=attempt.fence) | Q(pk=attempt.pk, ended_at__isnull=False)
    if Attempt.objects.filter(is_over, job=job).exists():
        raise StaleFence(str(attempt))
    return _apply_new(job, envelopes, attempt=attempt)


@transaction.atomic
def replay(job_id: int, envelopes: Sequence[Envelope]) -> int:
    """Write again what ``record`` once wrote, and change no state: the transitions are known. Gives the number.

    Raises:
        EventGap: the first new event does not follow the cursor.
    """
    return len(_apply_new(Job.objects.select_for_update().get(pk=job_id), envelopes, attempt=None))


def _apply_new(job: Job, envelopes: Sequence[Envelope], *, attempt: Attempt | None) -> list[Envelope]:
    new = [envelope for envelope in envelopes if envelope.seq > job.last_seq]
    if not new:
        return []
    if [envelope.seq for envelope in new] != list(range(job.last_seq + 1, job.last_seq + 1 + len(new))):
        raise EventGap(f"job {job.pk}: {new[0].seq} to {new[-1].seq} do not follow {job.last_seq}")
    _Batch(job, attempt).apply(new)
    return new


class _Batch:
    """What one transaction changes."""

    def __init__(self, job: Job, attempt: Attempt | None) -> None:
        self._job = job
        self._attempt = attempt
        """On whose behalf; None where what happened is only told again."""
        self._columns: dict[str, Any] = {}
        self._points: dict[str, bytearray] = defaultdict(bytearray)
        self._declared: dict[str, SeriesInfo] = {}
        self._events: list[JobEvent] = []

    def apply(self, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            self._take(envelope)
        self._columns["last_seq"] = envelopes[-1].seq
        _append_points(self._job, self._points, self._declared)
        JobEvent.objects.bulk_create(self._events)
        Job.objects.filter(pk=self._job.pk).update(**self._columns)

    def _take(self, envelope: Envelope) -> None:
        event = envelope.event
        match event:
            case Scalars():
                at = envelope.at.timestamp()
                for name, value in event.values.items():
                    self._points[name] += POINT.pack(envelope.seq, event.step, at, _NAN if value is None else value)
                return
            case Progress():
                self._columns |= {"stage": event.stage, "done": event.done, "total": event.total}
                return
            case AttemptStarted():
                self._attempt_started(event, envelope.seq)
            case ArtifactMade():
                self._artifact_made(event, envelope.at)
            case ArtifactDropped():
                Artifact.objects.filter(made_by=self._job, name=event.name).update(trashed_at=envelope.at)
            case CheckpointBest():
                self._columns |= {"best_series": event.series, "best_value": event.value, "best_step": event.step}
            case RunEnded():
                self._run_ended(event)
            case Notice():
                pass  # the event itself is all there is to keep
            case _:
                assert_never(event)
        body = event.model_dump(mode="json", exclude={"kind"})
        self._events.append(JobEvent(job=self._job, seq=envelope.seq, at=envelope.at, kind=event.kind, body=body))

    def _attempt_started(self, event: AttemptStarted, seq: int) -> None:
        Attempt.objects.filter(job=self._job, n=event.n).update(
            from_step=event.from_step,
            started_seq=seq,
            total_steps=event.total_steps,
            steps_per_epoch=event.steps_per_epoch,
        )
        self._declared |= {info.name: info for info in event.series}
        self._columns |= {"error_code": "", "error_message": "", "error_hint": ""}
        if self._attempt is not None and event.n == self._attempt.n:
            reason = f"attempt {event.n} from step {event.from_step}"
            transitions.move(self._job.pk, before=Status.STARTING, after=Status.RUNNING, reason=reason)

    def _artifact_made(self, event: ArtifactMade, at: datetime) -> None:
        Artifact.objects.update_or_create(
            made_by=self._job,
            name=event.name,
            defaults={
                "kind": event.artifact,
                "path": event.path,
                "sha256": event.sha256,
                "bytes": event.bytes,
                "meta": event.meta,
                "created_at": at,
                "trashed_at": None,
            },
        )

    def _run_ended(self, event: RunEnded) -> None:
        """How it ended is decided by the supervisor; what went wrong is said here."""
        if event.outcome in {"failed", "errored"}:
            self._columns |= {"error_code": event.code, "error_message": event.message, "error_hint": event.hint}


def _append_points(job: Job, points: dict[str, bytearray], declared: dict[str, SeriesInfo]) -> None:
    names = points.keys() | declared.keys()
    if not names:
        return
    series = _series_by_name(job, names, declared)
    last = _last_blocks(series[name] for name in points)
    blocks = [
        block for name, packed in points.items() for block in _filled(series[name], last.get(series[name].pk), packed)
    ]
    Curve.objects.bulk_create(
        blocks, update_conflicts=True, unique_fields=["series", "block"], update_fields=["count", "payload"]
    )


def _series_by_name(job: Job, names: Iterable[str], declared: dict[str, SeriesInfo]) -> dict[str, Series]:
    wanted = set(names)
    known = {series.name: series for series in Series.objects.filter(job=job, name__in=wanted)}
    infos = [declared.get(name, SeriesInfo(name=name)) for name in sorted(wanted - known.keys())]
    made = [Series(job=job, name=info.name, unit=info.unit, better=info.better) for info in infos]
    Series.objects.bulk_create(made)
    return known | {series.name: series for series in made}


def _last_blocks(series: Iterable[Series]) -> dict[int, Curve]:
    """The block of each series that is still being filled."""
    newest = Curve.objects.filter(series=OuterRef("series")).order_by("-block").values("block")[:1]
    blocks = Curve.objects.filter(series__in=[one.pk for one in series], block=Subquery(newest))
    return {block.series_id: block for block in blocks}


def _filled(series: Series, last: Curve | None, packed: bytearray) -> list[Curve]:
    """The blocks that hold these points: the last one as far as it has room, then new ones."""
    room = 0 if last is None else BLOCK_POINTS - last.count
    begin = bytes(last.payload) if last is not None and room else b""
    number = 0 if last is None else last.block + (0 if room else 1)
    payload = begin + bytes(packed)
    size = BLOCK_POINTS * POINT.size
    return [
        Curve(series=series, block=number + n, count=len(part) // POINT.size, payload=part)
        for n, part in enumerate(payload[at : at + size] for at in range(0, len(payload), size))
    ]
