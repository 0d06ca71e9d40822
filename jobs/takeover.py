"""Closes what another host left: attempts that nobody renews, so that their jobs go on elsewhere.

Of other hosts no process can be seen from here, so the leases decide (``jobs.leases``). Only agents do this: it takes
somebody who looks on all the time. And a host that was away itself ends what was closed meanwhile and still runs here.
"""

from __future__ import annotations

import logging
import signal
import time
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db.models.functions import Now

from jobs import leases
from jobs.models import Attempt
from jobs.process import find_leaders, is_locked, signal_group
from jobs.recorder import StaleFence, record
from jobs.storage import storage
from jobs.supervision.ending import close_by_exit
from jobs.supervision.engine import Exit, attempt_marker
from jobs.supervision.feed import StreamFeed
from jobs.tail import Tail

LOOK_FOR_STRAYS_EVERY_S = 30.0
SPARED = timedelta(seconds=10)
"""After the end of its attempt, within which whoever closed it ends the process too."""

log = logging.getLogger(__name__)


class TakeOver:
    def __init__(self) -> None:
        self._watch = leases.Watch()
        self._told: set[int] = set()
        self._looked_for_strays_s = -LOOK_FOR_STRAYS_EVERY_S

    def look(self) -> None:
        """To be called every few seconds."""
        for attempt in self._watch.expired():
            try:
                self._take_over(attempt)
            except DatabaseError:
                raise
            except Exception:  # one attempt that cannot be closed keeps nobody else waiting
                log.exception("job=%s attempt=%s cannot be taken over", attempt.job_id, attempt.n)
        self._end_strays()

    def _take_over(self, attempt: Attempt) -> None:
        name = f"job={attempt.job_id} attempt={attempt.n}"
        if is_locked(storage().job(attempt.job_id).lock_path):
            if attempt.pk not in self._told:
                log.warning("%s: its lease on %s is over, and a process still holds its folder", name, attempt.host)
            self._told.add(attempt.pk)
            return
        try:
            if _close(attempt):
                log.warning("closed %s: nobody on %s renews it", name, attempt.host)
        except StaleFence:
            log.info("%s was closed by somebody else", name)

    def _end_strays(self) -> None:
        """Engines here whose attempt is over, and whose supervisor is gone or hangs."""
        if time.monotonic() - self._looked_for_strays_s < LOOK_FOR_STRAYS_EVERY_S:
            return
        engines = {int(key): leader for key, leader in find_leaders(attempt_marker()) if key.isdecimal()}
        if engines:
            for attempt in Attempt.objects.filter(pk__in=engines, ended_at__lt=Now() - SPARED):
                log.warning("killing job=%s attempt=%s: it was closed meanwhile", attempt.job_id, attempt.n)
                signal_group(engines[attempt.pk], signal.SIGKILL)
        self._looked_for_strays_s = time.monotonic()


def _close(attempt: Attempt) -> bool:
    """Record what its trainer still said, and close it as that demands; False where it was renewed after all.

    Raises:
        StaleFence: somebody else has closed it.
    """
    events_path = storage().job(attempt.job_id).events_path
    tail = Tail(events_path, after=attempt.job.last_seq)
    feed = StreamFeed(attempt.job_id, events_path, recorded_seq=attempt.job.last_seq)
    while envelopes := tail.read():
        feed.push(record(attempt, envelopes))
    silence = "nobody has seen for a day" if attempt.lease_expires_at is None else "did not renew its lease"
    how = Exit(note=f"was on {attempt.host}, which {silence}")
    if not close_by_exit(attempt, how, only=leases.unrenewed(attempt)):
        return False
    feed.finish()
    return True
