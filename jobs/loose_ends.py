"""Attempts that look open after the database was restored or rebuilt: nothing runs, so they are closed as lost.

Left open they would wait for their host to look after them, which may have another name by now, or be gone.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from jobs.models import Attempt, Job
from jobs.process import is_locked
from jobs.recorder import EventGap, StaleFence, record
from jobs.retry import LOST
from jobs.states import ENDED, LIVE
from jobs.storage import storage
from jobs.supervision.ending import close_by_exit
from jobs.supervision.engine import Exit
from jobs.tail import Tail
from wire.layout import JobDir

_UNKNOWN = f"{LOST}: the database was lost with it"

log = logging.getLogger(__name__)


def close_left_open(jobs: QuerySet[Job]) -> None:
    """Close the open attempts of these jobs as their processes left them, so that the jobs go on, on whichever host.

    What still holds its job's folder is left alone.
    """
    for job in jobs.exclude(status__in=ENDED).order_by("pk"):
        folder = storage().job(job.pk)
        if is_locked(folder.lock_path):
            continue
        note_unknown_attempts(job, folder)
        attempt = job.attempts.filter(ended_at=None).first()
        try:
            if attempt is not None:
                _close(attempt)
        except (StaleFence, EventGap, OSError) as error:
            log.warning("job=%s attempt=%s stays open: %s", job.pk, attempt and attempt.n, error)


def note_unknown_attempts(job: Job, folder: JobDir) -> None:
    """Write down the attempts that began later than the database knows: the next one gets a number after theirs.

    They were lost with it, and so were those before them. But the last one of a job that was at work stays open: how
    it ended is for its own files to say.
    """
    newest, latest = job.attempts.order_by("-n").first(), folder.latest_attempt()
    now = timezone.now()
    job.attempts.filter(n__lt=latest, ended_at=None).update(ended_at=now, reason=_UNKNOWN)
    known = set(job.attempts.values_list("n", flat=True))
    host, last_known = (newest.host, newest.n) if newest else ("", 0)
    for n in sorted(set(range(1, latest + 1)) - known):
        goes_on = last_known < n == latest and job.status in LIVE
        closed: dict[str, Any] = {} if goes_on else {"ended_at": now, "reason": _UNKNOWN}
        Attempt.objects.create(job=job, n=n, fence=n, host=host, started_at=now, **closed)


def _close(attempt: Attempt) -> None:
    """What its trainer still said is recorded first, for that may be how it ended."""
    tail = Tail(storage().job(attempt.job_id).events_path, after=attempt.job.last_seq)
    while envelopes := tail.read():
        record(attempt, envelopes)
    close_by_exit(attempt, Exit(note="was gone when the database came back"))
