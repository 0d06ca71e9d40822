"""Whole lines out of a file that another process is still writing."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from jobs.eventlog import offset_after
from wire.events import ENVELOPE, Envelope

MOST_BYTES = 4 * 1024 * 1024
"""Read at once: so much is one transaction at most."""


class Tail:
    """Reads on after ``after``.

    A line that cannot be read (a power cut leaves zeros) is where the tail stops: the next attempt of the engine cuts
    it off and writes on from there.
    """

    def __init__(self, path: Path, *, after: int) -> None:
        self._path = path
        self._after = after
        self._offset: int | None = None
        self.damaged = False

    def has_more(self) -> bool:
        """Whether bytes were added since the last read. Cost: one stat."""
        try:
            return self._path.stat().st_size != (self._offset or 0)
        except FileNotFoundError:
            return False

    def read(self) -> list[Envelope]:
        """The next events, in order; an empty list where there is no whole line yet."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return []
        with file:
            if self._offset is None:
                self._offset = offset_after(file, self._after)
            file.seek(self._offset)
            chunk = file.read(MOST_BYTES)
        return self._parse(chunk)

    def _parse(self, chunk: bytes) -> list[Envelope]:
        envelopes: list[Envelope] = []
        self.damaged = False
        for line in chunk.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                envelopes.append(ENVELOPE.validate_json(line))
            except ValidationError:
                self.damaged = True
                break
            self._offset = (self._offset or 0) + len(line)
        return [envelope for envelope in envelopes if envelope.seq > self._after]
