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
    """See that no start of this ``DATA_DIR``, no agent and no engine is at work. Cost: one look at each job's lock.

    Raises:
        ActionRefused: the message says which one is.
    """
    places = storage()
    if is_locked(places.run_dir / "up.lock"):
        raise ActionRefused(f"Fovea runs in {places.root}.", hint="Stop it with Ctrl-C, then do this again.")
    busy = Device.objects.filter(seen_at__gt=Now() - SEEN_LATELY).order_by("host").first()
    if busy is not None:
        raise ActionRefused(
            f"An agent is at work on {busy.host}.", hint="Stop all services and wait ten seconds, then do this again."
        )
    folders = places.jobs_dir.iterdir() if places.jobs_dir.is_dir() else ()
    for folder in folders:
        if folder.name.isdecimal() and is_locked(places.job(int(folder.name)).lock_path):
            raise ActionRefused(
                f"A process still works in {folder}.", hint="Wait until it has ended, or end it; then do this again."
            )
