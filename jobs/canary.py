"""Notices a Celery worker that lives and takes no messages, such as one whose connection nobody told that it is dead.

The worker rings itself, by the way that all messages go: Redis, its consumer, its pool. One that hears nothing of that,
while Redis answers, ends; what looks after it starts it again. Jobs start without it: see ``jobs.agent``.
"""

from __future__ import annotations

import logging
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from django.conf import settings

from jobs import stream
from jobs.signs import say_alive

GAVE_UP: Final = 70

log = logging.getLogger(__name__)

_N_HEARD = mmap.mmap(-1, 8)
"""Shared with the processes of the pool, which are forked from the worker's."""


def queue_name() -> str:
    """Of this worker alone: another one that shares the Redis must not answer for it."""
    return f"fovea.canary.{socket.gethostname()}.{os.getpid()}"


def heard() -> None:
    """Called by the task, in a process of the pool."""
    _N_HEARD[:] = (_n_heard() + 1).to_bytes(8, "big")


def _n_heard() -> int:
    return int.from_bytes(_N_HEARD[:], "big")


class Hearing:
    """What is known of it; ``fails`` is asked again and again."""

    def __init__(self) -> None:
        self._n_heard = _n_heard()
        self._waits_since: float | None = None

    def fails(self, now_s: float, *, redis_answers: bool) -> bool:
        """Whether nothing was heard for too long, all of which Redis has answered.

        Args:
            now_s: A monotonic clock's reading.
            redis_answers: just now, to a connection of its own.
        """
        if (n_heard := _n_heard()) != self._n_heard:
            self._n_heard, self._waits_since = n_heard, None
            say_alive("worker")
        if not redis_answers:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now_s
        return self._waits_since is not None and now_s - self._waits_since > settings.CANARY_PATIENCE_S


def keep_watch(ring: Callable[[], object]) -> None:
    """Ring and listen, beside the worker's event loop: that may be what is stuck.

    In two threads, for a message on a dead connection may take for ever to send.
    """
    threading.Thread(target=_ring_on, args=[ring], name="canary-rings", daemon=True).start()
    threading.Thread(target=_listen, name="canary-listens", daemon=True).start()


def _ring_on(ring: Callable[[], object]) -> None:
    while True:
        ring()
        time.sleep(settings.CANARY_EVERY_S)


def _listen() -> None:
    hearing = Hearing()
    while not hearing.fails(time.monotonic(), redis_answers=stream.reachable()):
        time.sleep(settings.CANARY_EVERY_S / 10)
    log.error("this worker takes no messages although Redis answers: it ends, to be started again")
    # The orderly way out waits for what is stuck.
    os._exit(GAVE_UP)
