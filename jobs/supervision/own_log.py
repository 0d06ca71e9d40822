"""The supervisor's own log: which job its lines are about, and no end to its length but this one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from jobs.log_context import log_always_with
from jobs.models import Attempt
from jobs.storage import storage
from jobs.supervision.log_cap import cap

LOOK_EVERY_LINES: Final = 1000
"""A supervisor says some ten lines, unless something is away for days."""


class _Cap(logging.Handler):
    """Writes nothing: looks from time to time at how much the others have written."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._n_lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._n_lines += 1
        if self._n_lines % LOOK_EVERY_LINES:
            return
        try:
            cap(self._path)
        except OSError:
            self.handleError(record)


def keep_own_log(attempt: Attempt) -> None:
    log_always_with(job=attempt.job_id, attempt=attempt.n)
    path = storage().job(attempt.job_id).attempt(attempt.n).supervisor_log_path
    logging.getLogger().addHandler(_Cap(path))
