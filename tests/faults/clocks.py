"""Clocks that jump: of the processes of one host, and of a database server."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
from django.conf import settings

_PATCH = '''
import datetime
import time
from pathlib import Path

OFFSET = Path({offset!r})
true_time = time.time


def ahead_s():
    return float(OFFSET.read_text())


class Shifted(datetime.datetime):
    """What says the time here; what is read elsewhere stays what it is."""

    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(true_time() + ahead_s(), tz)


def shift():
    from django.utils import timezone

    from engine import emit

    time.time = lambda: true_time() + ahead_s()
    timezone.now = lambda: Shifted.now(datetime.UTC)
    emit.datetime = Shifted


shift()
'''


class HostClock:
    """The wall clock of every Python process that is given ``environment``; monotonic clocks go on as they are.

    It stands in for libfaketime, under which Python's ``time.sleep`` does not work.
    """

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "offset"
        self.jump(0)
        (folder / "sitecustomize.py").write_text(_PATCH.format(offset=str(self._offset)))
        self.environment = {"PYTHONPATH": os.pathsep.join((str(folder), str(settings.BASE_DIR)))}

    def jump(self, to_s: float) -> None:
        """So many seconds ahead of the true time, from now on."""
        beside = self._offset.with_suffix(".tmp")
        beside.write_text(str(to_s))
        beside.replace(self._offset)


class DatabaseClock:
    """What ``Now()`` asks in one database, for connections that are made from here on.

    The name is looked up in a schema of the test before the server's own, so every statement of every process gets it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        name = url.rpartition("/")[2]
        self._execute(
            "CREATE SCHEMA jumping",
            "CREATE TABLE jumping.ahead (hours int)",
            "INSERT INTO jumping.ahead VALUES (0)",
            "CREATE FUNCTION jumping.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS"
            " 'SELECT pg_catalog.statement_timestamp() + hours * interval ''1 hour'' FROM jumping.ahead'",
            f"ALTER DATABASE {name} SET search_path = jumping, pg_catalog, public",
        )

    def jump(self, to_hours: int) -> None:
        """So many hours ahead of the true time, from now on."""
        with psycopg.connect(self._url, autocommit=True) as server:
            server.execute("UPDATE jumping.ahead SET hours = %s", [to_hours])

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as server:
            for statement in statements:
                server.execute(statement)
