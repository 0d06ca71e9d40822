"""How seldom a supervisor writes, so that all of a machine together leave most of it to others."""

from __future__ import annotations

import os
from typing import Final

from jobs.host import attempts_here
from jobs.models import Attempt
from jobs.supervision.patience import patiently

COUNT_EVERY_S: Final = 10.0
SHORTEST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
ALONE: Final = 3
"""Times as long as a transaction took, the pause after it: a busy database gets fewer and larger ones."""
PART: Final = 4
"""All supervisors together keep at most this part of the machine's cores busy: a quarter."""


class Neighbours:
    def __init__(self) -> None:
        self._n = 1
        self._n_cores = len(os.sched_getaffinity(0))

    def count(self) -> None:
        """Cost: a query."""
        self._n = patiently(lambda: Attempt.objects.filter(attempts_here(), ended_at=None).count())

    def pause_s(self, took_s: float) -> float:
        """From the end of a transaction that took so long to the next one."""
        wanted_s = took_s * max(ALONE, PART * self._n / self._n_cores)
        return min(max(SHORTEST_PAUSE_S, wanted_s), LONGEST_PAUSE_S)
