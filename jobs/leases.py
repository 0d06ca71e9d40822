"""Who may work on a job when several hosts share a database: leases, and what makes them safe.

Two things must never happen: that two trainers work on one job at once, and that something is written on behalf of an
attempt that is over.

**Rows.** An attempt is open until ``ended_at`` is set, and at most one attempt of a job is open (a constraint of the
database). Whatever a supervisor writes is an UPDATE on the condition that its attempt is open, or stands in a
transaction that locked the job's row and looked. Closing an attempt locks that row as well. So the order of the two is
that of the locks: a write either comes before the close, or is refused (``StaleFence``), however late it arrives.

**Trainers** have no rows, so time has to do it. A supervisor renews its attempt twelve times in a lease:

- It notes a moment *before* it sends the renewal. What it tells its trainer counts from there: at 3/4 of a lease the
  trainer saves and stops by itself, at 11/12 it is killed (``engine.lease``; the supervisor's beat kills it too).
- An agent of any host that wants to close the attempt has to see the *same* ``heartbeat_at`` for a whole lease by its
  own monotonic clock, counted from a moment *after* it read it first. The close itself is on the condition that
  ``heartbeat_at`` is still that one.

The renewal that was seen first was sent before it was seen. So when the close succeeds, more than a lease has gone by
since the last renewal that counts was sent, and the trainer has been dead for a twelfth of a lease. No clock is
compared with another one: a host whose clock is hours wrong, or a database whose clock jumps, makes nothing expire
early. The lease in the time of the database (``lease_expires_at``) has to be over as well. A clock of the database
that was set back would make that last for hours; it shows as a ``heartbeat_at`` in the future, and then the watching
alone decides.

**After an outage** nobody is closed at once: a watcher that could not look for a while begins to count anew, so that
supervisors which waited for the database come first, and renew, or say how their trainer ended.

**One host alone** has no lease (``lease_expires_at`` is null): SQLite, or PostgreSQL where no other host was seen.
There the kernel says what runs (``jobs.process``), a database that is away ends no training, and nobody takes over by
time. Which of the two it is, is decided when the attempt is claimed and never changes: a trainer that does not watch
its lease stays one that nobody may take for dead. A host that joins meanwhile leaves such attempts to theirs, until
nobody has seen that one for a day: then it is not cut off, but gone, or has another name now.

**The lock** on the job's folder has to be free too before an attempt is closed from outside. It is a second line: a
shared file system need not show one host's locks to the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from jobs.host import host_name, is_shared_database
from jobs.models import Attempt, DeviceLease, Host
from jobs.recorder import StaleFence
from wire.beat import Deadlines, boot_clock_s

RENEWALS_IN_A_LEASE = 12
LONGEST_RENEWAL_PAUSE_S = 5.0
SAVE_SHARE, END_SHARE = 3 / 4, 11 / 12
"""Of a lease, counted from before its last renewal was sent."""
TO_START = timedelta(seconds=30)
"""The first lease is at least so long: a supervisor has to start on a busy machine before it can renew anything."""
REMEMBERED = timedelta(days=1)
"""How long another host counts after it was last seen: it may be cut off, with trainers of its own. Then it is gone."""
GAP_SHARE = 1 / 4
"""Of a lease: a watcher that did not look for so long begins to count anew."""


class Superseded(Exception):
    """Another supervisor has taken this attempt over; the trainer is that one's."""


def lease() -> timedelta:
    return timedelta(seconds=settings.LEASE_S)


def renewal_pause_s() -> float:
    return min(LONGEST_RENEWAL_PAUSE_S, settings.LEASE_S / RENEWALS_IN_A_LEASE)


def others_were_seen() -> bool:
    """Whether there is another host, so that attempts have to be leased. Cost: a query."""
    if not is_shared_database():
        return False
    return _seen().exclude(name=host_name()).exists()


def first_hold() -> dict[str, Combinable | None]:
    """Columns of an attempt that is being claimed: whether it is leased stays so until it ends."""
    until = Now() + max(lease(), TO_START) if others_were_seen() else None
    return {"heartbeat_at": Now(), "lease_expires_at": until}


def held(attempt: Attempt) -> QuerySet[Attempt]:
    """The attempt's row, as long as it is open and the present process's: what a supervisor updates."""
    return Attempt.objects.filter(supervised_as(attempt), pk=attempt.pk, ended_at__isnull=True)


def supervised_as(attempt: Attempt) -> Q:
    """That no other supervisor has taken it over since ``attempt`` was read."""
    return Q(supervisor_pid=attempt.supervisor_pid, supervisor_started=attempt.supervisor_started)


def renew(attempt: Attempt) -> Deadlines:
    """Hold the attempt and its devices for a further lease.

    Returns:
        Until when its trainer may work. Of use where the attempt is leased.

    Raises:
        StaleFence: the attempt is over, whoever closed it.
        Superseded: it is open and has another supervisor.
    """
    sent_at_s = boot_clock_s()
    with transaction.atomic():
        until = Now() + lease() if attempt.lease_expires_at is not None else None
        if held(attempt).update(heartbeat_at=Now(), lease_expires_at=until) != 1:
            raise refusal(attempt)
        DeviceLease.objects.filter(attempt=attempt).update(expires_at=Now() + lease())
    return Deadlines(sent_at_s + SAVE_SHARE * settings.LEASE_S, sent_at_s + END_SHARE * settings.LEASE_S)


def refusal(attempt: Attempt) -> StaleFence | Superseded:
    """Why ``held`` found no row."""
    is_open = Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=True).exists()
    return Superseded(str(attempt)) if is_open else StaleFence(str(attempt))


@dataclass(frozen=True, slots=True)
class _Seen:
    heartbeat_at: datetime | None
    since_s: float


class Watch:
    """Watches the leases of all hosts, from a process that looks every few seconds.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[int, _Seen] = {}
        self._looked_at_s = clock()

    def expired(self) -> list[Attempt]:
        """Attempts that nobody has renewed for a whole lease while this process looked on. Cost: a query."""
        asked_at_s = self._clock()
        if asked_at_s - self._looked_at_s > GAP_SHARE * settings.LEASE_S:
            self._seen.clear()
        try:
            found = list(_watched())
        except DatabaseError:
            self._seen.clear()
            raise
        self._looked_at_s = self._clock()
        before, self._seen = self._seen, {}
        return [attempt for attempt in found if self._is_expired(attempt, before.get(attempt.pk), asked_at_s)]

    def _is_expired(self, attempt: Attempt, seen: _Seen | None, asked_at_s: float) -> bool:
        if seen is None or seen.heartbeat_at != attempt.heartbeat_at:
            seen = _Seen(attempt.heartbeat_at, self._looked_at_s)
        self._seen[attempt.pk] = seen
        return asked_at_s - seen.since_s > _length_s(attempt) and attempt.is_over  # type: ignore[attr-defined]


def _watched() -> QuerySet[Attempt]:
    """Those with a lease, and those that began without one on another host that is gone."""
    is_leased = Q(lease_expires_at__isnull=False)
    is_left = Q(lease_expires_at__isnull=True) & ~Q(host=host_name()) & ~Exists(_seen().filter(name=OuterRef("host")))
    is_over = Q(lease_expires_at__lte=Now()) | Q(heartbeat_at__gt=Now()) | Q(lease_expires_at__isnull=True)
    found = Attempt.objects.filter(is_leased | is_left if is_shared_database() else is_leased, ended_at__isnull=True)
    return found.select_related("job").annotate(is_over=is_over).order_by("pk")


def _seen() -> QuerySet[Host]:
    return Host.objects.filter(seen_at__gt=Now() - REMEMBERED)


def _length_s(attempt: Attempt) -> float:
    """As whoever renewed it last has set it, by one clock; never shorter than ours."""
    if attempt.heartbeat_at is None or attempt.lease_expires_at is None:
        return float(settings.LEASE_S)
    return max(float(settings.LEASE_S), (attempt.lease_expires_at - attempt.heartbeat_at).total_seconds())


def unrenewed(attempt: Attempt) -> Q:
    """That nobody has renewed it since ``attempt`` was read: the condition on which it may be closed from outside."""
    return Q(heartbeat_at=attempt.heartbeat_at, lease_expires_at=attempt.lease_expires_at)
