"""The machine that this process runs on."""

from __future__ import annotations

import socket
from functools import cache

from django.db import connection
from django.db.models import Q


@cache
def host_name() -> str:
    return socket.gethostname()


def is_shared_database() -> bool:
    """Whether another host could use it."""
    return bool(connection.vendor != "sqlite")


def attempts_here() -> Q:
    """The attempts that are this host's to look after.

    With SQLite all of them, also those begun before it was given another name: no other host can open the database.
    The boot does not name a host: containers share it, and not their processes.
    """
    if not is_shared_database():
        return Q()
    return Q(host=host_name())
