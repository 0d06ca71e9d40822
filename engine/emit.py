"""Where events leave the engine: one line of JSON each, whole lines only, numbered without a gap."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ValidationError

from wire.events import ENVELOPE, Envelope, Event, Nonfinite, Scalars

_BLOCK_BYTES = 64 * 1024
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""As JSON writes it: after an odd number of backslashes it is text about it."""


class Sink(Protocol):
    """Takes events in order, from any thread."""

    @property
    def last_seq(self) -> int: ...

    def emit(self, event: Event) -> None: ...

    def sync(self) -> None:
        """Return when all that was emitted would survive a power cut. Cost: one fsync."""
        ...


class JsonlSink:
    """Appends to ``events.jsonl``, continuing after the last whole line that earlier attempts left.

    A line that was cut by a crash is removed first, so a reader never sees half an event followed by a whole one.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._last_seq, self._size_bytes = _whole_lines(self._fd)
        os.ftruncate(self._fd, self._size_bytes)

    @property
    def last_seq(self) -> int:
        return self._last_seq

    def emit(self, event: Event) -> None:
        with self._lock:
            envelope = Envelope(seq=self._last_seq + 1, at=datetime.now(UTC), event=event)
            self._append(json_of(envelope) + b"\n")
            self._last_seq = envelope.seq

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _append(self, line: bytes) -> None:
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._fd, line[written:], self._size_bytes + written)
        except OSError:
            # A full disk may have taken half of the line; the next event must not follow on it.
            os.ftruncate(self._fd, self._size_bytes)
            raise
        self._size_bytes += len(line)


class MemorySink:
    """Keeps what was emitted, for tests."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.synced_seq = 0

    @property
    def last_seq(self) -> int:
        return len(self.envelopes)

    @property
    def events(self) -> list[Event]:
        return [envelope.event for envelope in self.envelopes]

    def emit(self, event: Event) -> None:
        self.envelopes.append(Envelope(seq=self.last_seq + 1, at=datetime.now(UTC), event=event))

    def sync(self) -> None:
        self.synced_seq = self.last_seq


class Throttle:
    """Opens at most once in ``interval_s``; the first time at once."""

    def __init__(self, interval_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._opened_at: float | None = None

    def open(self) -> bool:
        now = self._clock()
        if self._opened_at is not None and now - self._opened_at < self._interval_s:
            return False
        self._opened_at = now
        return True


def json_of(model: BaseModel) -> bytes:
    """Without NUL characters, which a file's name or a library's message may bring: PostgreSQL takes none in a text."""
    text = model.model_dump_json().encode()
    return _NUL.sub(rb"\1", text) if b"\\u0000" in text else text


def scalars(step: int, values: Mapping[str, float]) -> Scalars:
    """The event of these values; JSON has no NaN, so a value that is not finite goes by name."""
    return Scalars(
        step=step,
        values={name: value if math.isfinite(value) else None for name, value in values.items()},
        nonfinite={name: _nonfinite(value) for name, value in values.items() if not math.isfinite(value)},
    )


def _nonfinite(value: float) -> Nonfinite:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def _whole_lines(fd: int) -> tuple[int, int]:
    """The last seq in the file, and the number of bytes up to the end of that line."""
    end = os.fstat(fd).st_size
    while end > 0:
        start, line = _last_line(fd, end)
        try:
            if line.endswith(b"\n"):
                return ENVELOPE.validate_json(line).seq, end
        except ValidationError:
            pass  # a power cut may leave a line of zeros
        end = start
    return 0, 0


def _last_line(fd: int, end: int) -> tuple[int, bytes]:
    """Where the last line before ``end`` begins, and its bytes, with the newline if it has one."""
    tail = b""
    while len(tail) < end:
        block_bytes = min(_BLOCK_BYTES, end - len(tail))
        tail = os.pread(fd, block_bytes, end - len(tail) - block_bytes) + tail
        newline = tail.rfind(b"\n", 0, len(tail) - 1)
        if newline >= 0:
            return end - len(tail) + newline + 1, tail[newline + 1 :]
    return 0, tail
