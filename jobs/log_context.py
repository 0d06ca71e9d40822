"""What a process works on just now, for its log: a request and whose it is, or an attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_context: ContextVar[dict[str, object] | None] = ContextVar("log_context", default=None)


_of_process: dict[str, object] = {}


def log_context() -> Mapping[str, object]:
    return {**_of_process, **(_context.get() or {})}


def log_always_with(**values: object) -> None:
    """For a process that has one thing to do: in all its lines, of whatever thread."""
    _of_process.update(values)


@contextmanager
def logged_with(**values: object) -> Iterator[None]:
    """Every line that is logged inside says these, also from threads that were begun for it."""
    token = _context.set({**(_context.get() or {}), **values})
    try:
        yield
    finally:
        _context.reset(token)


def add_to_log(**values: object) -> None:
    """What became known later within ``logged_with``; outside it is forgotten."""
    if (context := _context.get()) is not None:
        context.update(values)
