"""Celery's messages on their way through Redis, doubled, lost or out of order. Real messages and a real worker."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from django.conf import settings

SENT = "celery"
BENT = "bent"
"""The queue that the worker reads (``-Q bent``)."""
MOST_HELD = 3
IDLE_S = 1
"""Redis waits in whole seconds."""

Bend = Callable[[Sequence[bytes]], Sequence[bytes]]


def twice_and_shuffled(rng: random.Random) -> Bend:
    def bend(messages: Sequence[bytes]) -> Sequence[bytes]:
        doubled = [*messages, *messages]
        rng.shuffle(doubled)
        return doubled

    return bend


class EveryThirdLost:
    def __init__(self) -> None:
        self._n_seen = 0
        self.n_lost = 0

    def __call__(self, messages: Sequence[bytes]) -> Sequence[bytes]:
        return [message for message in messages if not self._is_lost()]

    def _is_lost(self) -> bool:
        self._n_seen += 1
        lost = self._n_seen % 3 == 0
        self.n_lost += lost
        return lost


@contextmanager
def bent(bend: Bend) -> Iterator[None]:
    """For as long as this lasts, what is sent to ``celery`` arrives in ``bent`` as ``bend`` likes it."""
    ended = threading.Event()
    thread = threading.Thread(target=_carry, args=(bend, ended), name="bent")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _carry(bend: Bend, ended: threading.Event) -> None:
    server = redis.Redis.from_url(settings.REDIS_URL, protocol=2)
    held: list[Any] = []
    while not ended.is_set():
        taken = server.brpop([SENT], timeout=IDLE_S)
        if taken is not None:
            held.append(taken[1])
        if held and (taken is None or len(held) >= MOST_HELD):
            for message in bend(held):
                server.lpush(BENT, message)
            held = []
    server.close()
