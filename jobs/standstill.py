"""Nothing may run while the database is exchanged under it: neither services nor trainings."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from jobs.models import Device
from jobs.process import is_locked
from jobs.storage import storage
from wire.errors import ActionRefused

SEEN_LATELY = timedelta(seconds=10)
"""An agent looks at its devices every two seconds."""


def check_standstill() -> None:
    """See that no start of this ``DATA_DIR``, no agent and no engine is at work.

    Raises:
        ActionRefused: the message says which one is.
    """
    check_no_process()
    check_no_agent()


def check_no_process() -> None:
    """By the locks alone, whatever became of the database. Cost: one look at each job's.

    Raises:
        ActionRefused: one works in ``DATA_DIR``.
    """
    places = storage()
    if is_locked(places.run_dir / "up.lock"):
        raise ActionRefused(f"Fovea runs in {places.root}.", hint="Stop it with Ctrl-C, then do this again.")
    folders = places.jobs_dir.iterdir() if places.jobs_dir.is_dir() else ()
    for folder in folders:
        if folder.name.isdecimal() and is_locked(places.job(int(folder.name)).lock_path):
            raise ActionRefused(
                f"A process still works in {folder}.", hint="Wait until it has ended, or end it; then do this again."
            )


def check_no_agent() -> None:
    """By what the database says; that may be of another version, so only what every version has is read.

    Raises:
        ActionRefused: one is at work, on whichever host.
    """
    seen = Device.objects.filter(seen_at__gt=Now() - SEEN_LATELY)
    host = seen.order_by("host").values_list("host", flat=True).first()
    if host is not None:
        raise ActionRefused(
            f"An agent is at work on {host}.", hint="Stop all services and wait ten seconds, then do this again."
        )
