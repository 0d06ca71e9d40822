"""The sockets: what happens to one job, and which jobs changed.

Server to browser, JSON text: ``{"type": "events", "events": [Envelope, ...]}`` in order and without a gap;
``{"type": "changed", "job": id}``, fetch its row again; ``{"type": "live", "ok": bool}``, whether changes arrive by
themselves: while not, the browser polls, and after each ``true`` it may have missed ``changed`` messages. A database
that is away closes no socket: the browser is told ``false``, and what it missed once there is a database again.
Browser to server: ``{"type": "ping"}``, answered by ``pong``. Closed with 4401 (not signed in) or 4404 (no such job).
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import parse_qs

from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import User
from django.db import Error as DatabaseError

from dashboard.identity import socket_user
from dashboard.socket_database import desk
from jobs.access import last_seq_for, visible_jobs
from jobs.database import trouble_of
from jobs.eventlog import recorded_events
from jobs.fanout import Changed, Event, Item, Live, SubscriptionOverflow, fanout
from wire.errors import NotFound

NOT_SIGNED_IN: Final = 4401
NO_SUCH_JOB: Final = 4404
FAULT: Final = 1011
PAGE: Final = 1000
MOST_DIGITS: Final = 18
"""Of the place to go on from; longer ones are none."""
ASK_AGAIN_S: Final = 2.0
"""A database that was away; half as long again, by chance, so that not all sockets ask at once."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class _Close(Exception):
    """How one part of a socket ends all of it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class SignedInSocket(AsyncWebsocketConsumer):
    """Runs ``parts()`` side by side for somebody who is signed in, until one of them closes the socket."""

    recheck_s: ClassVar[float] = 30.0
    user: User
    _work: asyncio.Task[None] | None = None

    def parts(self) -> list[Any]:
        """Coroutines that do the socket's work."""
        raise NotImplementedError

    def admit(self, user: User) -> None:
        """Raise ``NotFound`` where the user may not have this socket. Called at the start and now and then."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        try:
            return await super().__call__(scope, receive, send)
        finally:
            if self._work is not None:
                self._work.cancel()
                with suppress(asyncio.CancelledError):
                    await self._work

    async def dispatch(self, message: Any) -> None:
        # As Channels does, but for a look at the database's connections with each message: a socket holds none.
        if message["type"] == "websocket.disconnect":
            raise StopConsumer
        if message["type"] == "websocket.connect":
            await self.websocket_connect(message)
        else:
            await self.websocket_receive(message)

    async def connect(self) -> None:
        # Accepted first in any case: a code to close with reaches a browser only through an open socket.
        await self.accept()
        self._work = asyncio.create_task(self._run())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        with suppress(ValueError, AttributeError):
            if json.loads(text_data or "").get("type") == "ping":
                await self.send(text_data='{"type":"pong"}')

    async def _run(self) -> None:
        try:
            await self._check()
            async with asyncio.TaskGroup() as group:
                for part in (self._keep_checking(), *self.parts()):
                    group.create_task(part)
        except* (_Close, NotFound) as closing:
            await self.close(code=_first_code(closing))
        except* OSError:
            log.debug("a socket's browser has gone")
        except* Exception:
            log.exception("a socket failed")
            await self.close(code=FAULT)

    async def _check(self) -> None:
        self.user = await self.ask(self._admitted)

    def _admitted(self) -> User:
        user = socket_user(self.scope)
        if user is None:
            raise _Close(NOT_SIGNED_IN)
        self.admit(user)
        return user

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(self.recheck_s)
            await self._check()

    async def ask(self, question: Callable[[], T]) -> T:
        """What the database says to it, as soon as it says anything; meanwhile the browser is told to poll."""
        is_told = False
        while True:
            try:
                answer = await desk.ask(question)
            except DatabaseError as error:
                if trouble_of(error) is None:
                    raise
            else:
                if is_told:
                    await self.say(type="live", ok=fanout.connected)
                return answer
            if not is_told:
                await self.say(type="live", ok=False)
                is_told = True
            await asyncio.sleep(ASK_AGAIN_S * random.uniform(1, 1.5))  # noqa: S311

    async def say(self, **message: Any) -> None:
        await self.send(text_data=json.dumps(message, separators=(",", ":")))


def _first_code(closing: BaseExceptionGroup[_Close | NotFound]) -> int:
    first = closing.exceptions[0]
    return first.code if isinstance(first, _Close) else NO_SUCH_JOB


class JobEvents(SignedInSocket):
    """One job, from the event after ``?after=``."""

    _seq = 0
    """The last event that was sent."""

    @property
    def job_id(self) -> int:
        return int(self.scope["url_route"]["kwargs"]["job_id"])

    def admit(self, user: User) -> None:
        last_seq_for(user, self.job_id)

    def parts(self) -> list[Any]:
        given = parse_qs(self.scope["query_string"].decode("latin1")).get("after", ["0"])[0]
        self._seq = int(given) if given.isdecimal() and len(given) <= MOST_DIGITS else 0
        return [self._follow_events(), self._follow_row()]

    async def _follow_events(self) -> None:
        while True:
            # What was too much for the queue is in the file: subscribe again and go on from there.
            with suppress(SubscriptionOverflow):
                async with fanout.subscribe(self.job_id) as subscription:
                    # What was heard until now is in the file by now: events are recorded before they are published.
                    heard = subscription.take()
                    await self._send_recorded()
                    await self._deliver(heard)
                    while True:
                        items = await subscription.get_many()
                        await self._deliver(items, resync=True)

    async def _deliver(self, items: Sequence[Item], *, resync: bool = False) -> None:
        ready: list[str] = []
        for item in items:
            if isinstance(item, Live):
                await self._send_events(ready)
                if item.ok and resync:
                    await self._send_recorded()
                await self.say(type="live", ok=item.ok)
            elif isinstance(item, Event) and item.seq > self._seq:
                if item.seq > self._seq + 1:
                    await self._send_events(ready)
                    await self._send_recorded()
                if item.seq > self._seq:
                    ready.append(item.text)
                    self._seq = item.seq
        await self._send_events(ready)

    async def _send_events(self, ready: list[str]) -> None:
        if ready:
            await self.send(text_data='{"type":"events","events":[' + ",".join(ready) + "]}")
            ready.clear()

    async def _send_recorded(self) -> None:
        """Everything after the last event that was sent, page by page, from the job's own file."""
        while True:
            page, last_seq = await self.ask(self._recorded_page)
            if page == b"[]":
                return
            # ``seq`` counts without gaps, so that a page's length is known without reading it.
            self._seq = min(self._seq + PAGE, last_seq)
            await self.send(text_data='{"type":"events","events":' + page.decode() + "}")
            if self._seq >= last_seq:
                return

    def _recorded_page(self) -> tuple[bytes, int]:
        last_seq = last_seq_for(self.user, self.job_id)
        return recorded_events(self.job_id, self._seq, until=last_seq, limit=PAGE), last_seq

    async def _follow_row(self) -> None:
        while True:
            with suppress(SubscriptionOverflow):
                async with fanout.subscribe("changes") as subscription:
                    while True:
                        items = await subscription.get_many()
                        # Whatever changed while Redis was away was announced to nobody.
                        if any(item == Changed(self.job_id) or item == Live(ok=True) for item in items):
                            await self.say(type="changed", job=self.job_id)


class Changes(SignedInSocket):
    """Which jobs changed, of those that the user may see."""

    gather_s: ClassVar[float] = 0.3

    def parts(self) -> list[Any]:
        return [self._follow_changes()]

    async def _follow_changes(self) -> None:
        while True:
            with suppress(SubscriptionOverflow):
                async with fanout.subscribe("changes") as subscription:
                    self._known = await self.ask(partial(self._visible, None))
                    while True:
                        await self._deliver(await subscription.get_many())
                        # A job that starts changes often; once in a while is enough for a list.
                        await asyncio.sleep(self.gather_s)

    async def _deliver(self, items: Sequence[Item]) -> None:
        changed = {item.job_id for item in items if isinstance(item, Changed)}
        if changed:
            visible = await self.ask(partial(self._visible, changed))
            # One that could be seen until now was deleted or made private: its row must go.
            for job_id in sorted(changed & (visible | self._known)):
                await self.say(type="changed", job=job_id)
            self._known = self._known - changed | visible
        for item in items:
            if isinstance(item, Live):
                await self.say(type="live", ok=item.ok)

    def _visible(self, among: set[int] | None) -> set[int]:
        jobs = visible_jobs(self.user)
        return set((jobs if among is None else jobs.filter(pk__in=among)).values_list("pk", flat=True))
