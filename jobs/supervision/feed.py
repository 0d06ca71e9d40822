"""Keeps the Redis stream of a job up with the database, through outages of Redis."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from jobs import stream
from jobs.eventlog import lines_after
from wire.events import ENVELOPE, Envelope

CATCH_UP = 1_000
"""At most so many events are sent again; who missed more fetches them from the file."""
RETRY_S = 1.0
LAST_RETRY_S = 0.1
LAST_PATIENCE_S = 5.0

log = logging.getLogger(__name__)


class StreamFeed:
    def __init__(self, job_id: int, events_path: Path, *, recorded_seq: int) -> None:
        self._job_id = job_id
        self._path = events_path
        self._recorded = recorded_seq
        self._published: int | None = None
        self._retry_at = 0.0
        self.n_failures = 0

    def push(self, envelopes: Sequence[Envelope]) -> None:
        """Publish events that were just recorded, after those that could not be published before."""
        if envelopes:
            self._recorded = envelopes[-1].seq
        if self._published is not None and envelopes and envelopes[0].seq == self._published + 1:
            self._send(envelopes)
        elif self._published != self._recorded:
            self._catch_up()

    def finish(self, patience_s: float = LAST_PATIENCE_S) -> None:
        """Publish what is left, by and by while Redis is slow: after this nobody does it, and open pages would miss it.

        Args:
            patience_s: how long to try at most.
        """
        if self._published == self._recorded:
            return
        deadline = time.monotonic() + patience_s
        self.push(())
        while self._published != self._recorded and time.monotonic() < deadline:
            time.sleep(LAST_RETRY_S)
            self._retry_at = 0.0
            self.push(())
        # That the run has ended was told to the same silence.
        stream.publish_change(self._job_id)

    def _catch_up(self) -> None:
        if time.monotonic() < self._retry_at:
            return
        if self._published is None:
            self._published = stream.published_seq(self._job_id)
        if self._published is None:
            self._failed()
            return
        after = max(self._published, self._recorded - CATCH_UP)
        lines = lines_after(self._path, after, until=self._recorded, limit=CATCH_UP)
        self._send([ENVELOPE.validate_json(line) for line in lines])

    def _send(self, envelopes: Sequence[Envelope]) -> None:
        if stream.publish(self._job_id, envelopes):
            self._published = self._recorded
        else:
            self._failed()

    def _failed(self) -> None:
        self._published = None
        self._retry_at = time.monotonic() + RETRY_S
        self.n_failures += 1
        if self.n_failures == 1:
            log.warning("Redis is away; events are recorded and will be published when it is back")
