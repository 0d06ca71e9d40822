from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

RETRY_S = 1.0

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)


def patiently(action: Callable[[], Answer]) -> Answer:
    """Do it as soon as the database answers. Training goes on meanwhile: its facts wait in ``events.jsonl``."""
    n_failures = 0
    while True:
        try:
            return action()
        except (OperationalError, InterfaceError) as error:
            n_failures += 1
            if n_failures == 1:
                log.warning("the database does not answer, trying again: %s", error)
            connection.close()
            time.sleep(RETRY_S)
