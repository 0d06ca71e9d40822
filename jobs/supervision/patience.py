from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import Error, InterfaceError, OperationalError

from jobs.database import Trouble, let_go_if_broken, pause_before_repeat, trouble_of

RETRY_S = 1.0
FIRST_RETRY_S = 0.1
"""A connection that broke is had anew at once, where the database is there; each further wait is twice as long."""
REMIND_S = 60.0

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)


def patiently(action: Callable[[], Answer]) -> Answer:
    """Do it as soon as the database answers. Training goes on meanwhile: its facts wait in ``events.jsonl``.

    ``action`` may be done although its answer was lost, so it is one that does nothing the second time.
    """
    n_failures = 0
    said_at = -REMIND_S
    while True:
        try:
            return action()
        except Error as error:
            trouble = trouble_of(error)
            if trouble is None and not isinstance(error, OperationalError | InterfaceError):
                raise
            # A connection that works is kept: while the database has none to give, it is what this run is recorded by.
            let_go_if_broken()
            if trouble is Trouble.CONFLICT:
                pause_before_repeat(min(n_failures, 5))
            else:
                if time.monotonic() - said_at >= REMIND_S:
                    said_at = time.monotonic()
                    log.warning("the database does not answer, trying again: %s", str(error).strip())
                time.sleep(min(RETRY_S, FIRST_RETRY_S * 2 ** min(n_failures, 10)))
            n_failures += 1
