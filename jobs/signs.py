"""Signs of life: files that services touch, for whoever looks after them and cannot ask them anything."""

from __future__ import annotations

import logging

from jobs.host import host_name
from jobs.storage import storage

log = logging.getLogger(__name__)


def say_alive(service: str) -> None:
    """Where the disk takes no more, nothing is said: it is not the service that is at fault."""
    path = storage().sign_path(host_name(), service)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        log.debug("no sign of life: %s", error)
