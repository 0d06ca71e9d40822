"""The one clock that all hosts have in common: the database's. A host's own may be hours wrong, and may jump."""

from __future__ import annotations

import time
from datetime import datetime

from django.db import connection
from django.utils import timezone

from jobs.host import is_shared_database


def database_now() -> datetime:
    """What rows are dated by. Cost: a query, where the database is another process."""
    if not is_shared_database():
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT STATEMENT_TIMESTAMP()")
        now: datetime = cursor.fetchone()[0]
    return now


def clock_ahead_s() -> float:
    """Of this host's wall clock, against the database's; negative where it is behind. Cost: a query."""
    if not is_shared_database():
        return 0.0
    began_s = time.time()
    there_s = database_now().timestamp()
    return (began_s + time.time()) / 2 - there_s
