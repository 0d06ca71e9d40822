"""From Redis streams to the sockets of this process: one reader, however many listen.

A subscriber gets items in order:

* ``Event``: one event of its job, with its ``seq``. A jump in ``seq`` is a gap: fetch it from ``events_after``.
* ``Changed``: the row of that job changed (topic ``changes``).
* ``Live(ok=False)``: Redis is away. ``Live(ok=True)``: it is back, or was emptied; events may have been missed, so
  fetch what came after the last known ``seq``.

Subscribe first, read the snapshot second, drop what both gave: then nothing is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import redis.asyncio
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from jobs.stream import EVENT_FIELD, JOB_FIELD, changes_key, events_key

BLOCK_MS = 200
"""Longest time a read waits, and so the longest time until a new topic joins it."""
BATCH = 500
RETRY_S = 0.5
MARK_EVERY_S = 2.0

Topic: TypeAlias = "int | Literal['changes']"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    text: str
    """The envelope as JSON."""


@dataclass(frozen=True, slots=True)
class Changed:
    job_id: int


@dataclass(frozen=True, slots=True)
class Live:
    ok: bool


Item: TypeAlias = Event | Changed | Live


class SubscriptionOverflow(Exception):
    """The subscriber was too slow; it must subscribe again and re-sync."""


class Subscription:
    """A bounded queue of one subscriber."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[Item] = deque()
        self._ready = asyncio.Event()
        self.overflowed = False

    def put(self, item: Item) -> None:
        if len(self._items) >= self._capacity:
            self.overflowed = True
            self._items.clear()
        else:
            self._items.append(item)
        self._ready.set()

    def begin(self, state: Live) -> None:
        """Say first how it is, unless that was said already."""
        if not self._items or not isinstance(self._items[0], Live):
            self._items.appendleft(state)
            self._ready.set()

    async def get_many(self) -> list[Item]:
        """All that is there, at least one item.

        Raises:
            SubscriptionOverflow: items were lost because nobody fetched them.
        """
        await self._ready.wait()
        return self.take()

    def take(self) -> list[Item]:
        """All that is there, without waiting; perhaps nothing.

        Raises:
            SubscriptionOverflow: as above.
        """
        if self.overflowed:
            raise SubscriptionOverflow
        items = list(self._items)
        self._items.clear()
        self._ready.clear()
        return items


def _key(topic: Topic) -> str:
    return changes_key() if topic == "changes" else events_key(topic)


class Fanout:
    """One per process; reads only while somebody listens."""

    def __init__(self, *, capacity: int = 5_000) -> None:
        self._capacity = capacity
        self._listeners: dict[Topic, set[Subscription]] = {}
        self._positions: dict[Topic, bytes] = {}
        self._client: redis.asyncio.Redis | None = None
        self._reader: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        """Set when the present reader has reached Redis, or has not."""
        self._mark = f"fovea:fanout:{uuid.uuid4().hex}"
        self._marked_at = 0.0
        self.connected = False

    @contextlib.asynccontextmanager
    async def subscribe(self, topic: Topic) -> AsyncIterator[Subscription]:
        """What is published on the topic from now on. The first item is ``Live``: the present state."""
        subscription = Subscription(self._capacity)
        client = self._open()
        self._listeners.setdefault(topic, set()).add(subscription)
        try:
            with contextlib.suppress(RedisError, OSError):
                await self._tried.wait()
                await self._locate(client, topic)
            subscription.begin(Live(ok=self.connected))
            yield subscription
        finally:
            await self._leave(topic, subscription)

    def _open(self) -> redis.asyncio.Redis:
        if self._client is None:
            self._client = redis.asyncio.Redis.from_url(
                settings.REDIS_URL,
                protocol=2,
                socket_timeout=5,
                socket_connect_timeout=1,
                retry=Retry(NoBackoff(), 0),
            )
            self._tried = asyncio.Event()
            self._reader = asyncio.create_task(self._read_while_open(self._client), name="fanout")
        return self._client

    async def _leave(self, topic: Topic, subscription: Subscription) -> None:
        listeners = self._listeners[topic]
        listeners.discard(subscription)
        if not listeners:
            del self._listeners[topic]
            self._positions.pop(topic, None)
        if not self._listeners:
            await self._close()

    async def _close(self) -> None:
        reader, self._reader = self._reader, None
        client, self._client = self._client, None
        self.connected = False
        self._positions.clear()
        if reader is not None:
            reader.cancel()
            await asyncio.wait({reader})
        if client is not None:
            with contextlib.suppress(RedisError, OSError):
                await client.aclose()

    async def _locate_all(self, client: redis.asyncio.Redis) -> None:
        for topic in list(self._listeners):
            await self._locate(client, topic)

    async def _locate(self, client: redis.asyncio.Redis, topic: Topic) -> None:
        """Begin after the newest entry. A literal ``$`` would lose what arrives between two reads."""
        if topic not in self._positions:
            entries: Any = await client.xrevrange(_key(topic), count=1)
            self._positions.setdefault(topic, entries[0][0] if entries else b"0-0")

    async def _read_while_open(self, client: redis.asyncio.Redis) -> None:
        # redis-py may swallow a cancellation, hence asked each time.
        while self._client is client:
            try:
                await self._check_mark(client)
                await self._read_once(client)
            except (RedisError, OSError) as error:
                if self.connected:
                    log.warning("live events are interrupted: %s", error)
                self._set_connected(ok=False)
                await asyncio.sleep(RETRY_S)
            except Exception:
                # Every socket of the process hangs on this task: it says what happened and goes on.
                log.exception("the reader of live events failed")
                self._set_connected(ok=False)
                await asyncio.sleep(RETRY_S)

    async def _check_mark(self, client: redis.asyncio.Redis) -> None:
        """Notice an emptied Redis: a key of ours is gone, so events may be gone unread."""
        now = asyncio.get_running_loop().time()
        if self.connected and now - self._marked_at < MARK_EVERY_S:
            return
        was_there = await client.set(self._mark, b"1", ex=60, get=True)
        self._marked_at = now
        if not self.connected or was_there is None:
            # Who is told "live again" reads its file now: what comes after that must be heard.
            await self._locate_all(client)
            self._set_connected(ok=True)

    async def _read_once(self, client: redis.asyncio.Redis) -> None:
        await self._locate_all(client)
        # Between two awaits a topic may come without its position, or go.
        positions = {topic: self._positions[topic] for topic in self._listeners if topic in self._positions}
        if not positions:
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        topics = {_key(topic).encode(): topic for topic in positions}
        streams: Any = {_key(topic): position for topic, position in positions.items()}
        answer: Any = await client.xread(streams, count=BATCH, block=BLOCK_MS)
        for key, entries in answer or ():
            topic = topics[key]
            if topic in self._positions:
                self._positions[topic] = entries[-1][0]
            self._deliver(topic, entries)

    def _deliver(self, topic: Topic, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        for entry_id, fields in entries:
            item: Item
            if topic == "changes":
                item = Changed(int(fields[JOB_FIELD]))
            else:
                item = Event(int(entry_id.split(b"-")[0]), fields[EVENT_FIELD].decode())
            for subscription in self._listeners.get(topic, ()):
                subscription.put(item)

    def _set_connected(self, *, ok: bool) -> None:
        self._tried.set()
        if not ok and not self.connected:
            return
        self.connected = ok
        for listeners in self._listeners.values():
            for subscription in listeners:
                subscription.put(Live(ok=ok))


fanout = Fanout()
"""The one of this process."""
