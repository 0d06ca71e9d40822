"""The live copy of what the database already holds: one Redis stream a job, and one that says which rows changed.

Redis may be lost at any moment without losing a fact, so nothing here raises because it is away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import redis
from django.conf import settings
from django.utils.crypto import salted_hmac
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry

from wire.events import Envelope

EVENT_FIELD: Final = b"e"
JOB_FIELD: Final = b"job"
KEPT_EVENTS = 20_000
KEPT_CHANGES = 2_000
KEPT_S = 24 * 3600
PATIENCE_S = 0.3
"""How long a request may wait for a Redis that does not answer."""

PAUSE_S = 1.0
"""After a Redis that let somebody wait in vain, nobody waits for it again so soon."""

SAY_EVERY_S = 60.0

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


def _key(name: str) -> str:
    """Several installations may share one Redis: each has keys of its own, told apart by a hash of its secret."""
    return f"fovea:{salted_hmac('jobs.stream', 'installation').hexdigest()[:12]}:{name}"


def events_key(job_id: int) -> str:
    return _key(f"job:{job_id}:events")


def changes_key() -> str:
    return _key("changes")


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        # Answers differ between RESP2 and RESP3.
        protocol=2,
        socket_timeout=PATIENCE_S,
        socket_connect_timeout=PATIENCE_S,
        retry=Retry(NoBackoff(), 0),
    )


def client() -> redis.Redis:
    return _client(settings.REDIS_URL)


_silent_until = 0.0


class _Failures:
    """Counted, and said now and then: pages poll meanwhile, and nobody is kept waiting."""

    def __init__(self) -> None:
        self._n_since = 0
        self._said_at = -SAY_EVERY_S

    def note(self, error: Exception) -> None:
        self._n_since += 1
        if time.monotonic() - self._said_at >= SAY_EVERY_S:
            log.warning("Redis was of no use %s times, live updates wait: %s", self._n_since, error)
            self._n_since = 0
            self._said_at = time.monotonic()


_failures = _Failures()


def _ask(question: Callable[[redis.Redis], Answer]) -> Answer | None:
    """The answer, or None where Redis is away."""
    global _silent_until  # noqa: PLW0603 - one Redis, one memory of its silence
    if not settings.REDIS_URL or time.monotonic() < _silent_until:
        return None
    try:
        return question(client())
    except RedisTimeout as error:
        _silent_until = time.monotonic() + PAUSE_S
        _failures.note(error)
    except (RedisError, OSError) as error:
        _failures.note(error)
    return None


def reachable() -> bool:
    return bool(_ask(lambda redis: redis.ping()))


def publish(job_id: int, envelopes: Sequence[Envelope]) -> bool:
    """Append in order; the entry's id is the event's ``seq``, so twice is once. False where Redis is away."""
    if not envelopes:
        return True
    key = events_key(job_id)

    def append(redis: redis.Redis) -> list[Any]:
        pipe = redis.pipeline(transaction=False)
        for envelope in envelopes:
            fields: dict[Any, Any] = {EVENT_FIELD: envelope.model_dump_json()}
            pipe.xadd(key, fields, id=f"{envelope.seq}-0", maxlen=KEPT_EVENTS, approximate=True)
        pipe.expire(key, KEPT_S)
        return pipe.execute(raise_on_error=False)

    answers = _ask(append)
    if answers is None:
        return False
    return not any(isinstance(answer, Exception) and not _known_already(answer) for answer in answers)


def _known_already(answer: Exception) -> bool:
    return isinstance(answer, ResponseError) and "equal or smaller" in str(answer)


def published_seq(job_id: int) -> int | None:
    """``seq`` of the newest event in the stream, 0 where it is empty, None where Redis is away."""
    entries: Any = _ask(lambda redis: redis.xrevrange(events_key(job_id), count=1))
    if entries is None:
        return None
    return int(entries[0][0].split(b"-")[0]) if entries else 0


def publish_change(job_id: int) -> None:
    """Say that a job's row is not what it was."""
    _ask(lambda redis: redis.xadd(changes_key(), {JOB_FIELD: str(job_id)}, maxlen=KEPT_CHANGES, approximate=True))
