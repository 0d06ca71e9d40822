"""The machine that this process runs on."""

from __future__ import annotations

import socket
from functools import cache

from django.db import connection
from django.db.models import Q

from jobs.process import boot_id


@cache
def host_name() -> str:
    return socket.gethostname()


def attempts_here() -> Q:
    """The attempts that are this host's to look after, also those begun before it was given another name.

    Its boot is the same then, and after a restart nobody but this host can open a database of SQLite.
    """
    if connection.vendor == "sqlite":
        return Q()
    return Q(host=host_name()) | Q(boot_id=boot_id())
