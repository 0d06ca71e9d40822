"""How many requests Django works on at once.

Each has a thread and a connection of the database for as long as it takes. Without a bound, a crowd would take all
connections there are, those by which running trainings are recorded among them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

from django.template.loader import render_to_string

from dashboard.addresses import inner_path
from dashboard.database import RETRY_AFTER_S
from dashboard.errors import API_PREFIX, ServerBusy, problem_of

MOST: Final = 24
PATIENCE_S: Final = 10.0
"""For a place; whoever waits longer is asked to come again."""
_ALWAYS_LET_IN: Final = frozenset({"/healthz", "/readyz"})

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AtOnce:
    """ASGI: the application, with at most so many requests in it. What is sent in pieces needs no place any more."""

    def __init__(self, application: Any, most: int = MOST) -> None:
        self._application = application
        self._most = most
        # A test may have a loop of its own.
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if inner_path(scope) in _ALWAYS_LET_IN:
            await self._application(scope, receive, send)
            return
        places = self._places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._most))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await places.acquire()
        except TimeoutError:
            await _refuse(scope, send)
            return
        place = _Place(places)

        async def tell(message: Message) -> None:
            if message.get("more_body"):
                place.leave()
            await send(message)

        try:
            await self._application(scope, receive, tell)
        finally:
            place.leave()


class _Place:
    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._taken = True

    def leave(self) -> None:
        if self._taken:
            self._taken = False
            self._places.release()


async def _refuse(scope: dict[str, Any], send: Send) -> None:
    problem = problem_of(
        ServerBusy("The server has more to do than it can at the moment.", hint="Try again in a few seconds.")
    )
    if inner_path(scope).startswith(API_PREFIX):
        content_type, text = b"application/json", json.dumps(problem.body())
    else:
        template = "banner" if any(name.lower() == b"hx-request" for name, _ in scope["headers"]) else "unavailable"
        context = {"problem": problem, "retry_after_s": RETRY_AFTER_S if scope["method"] == "GET" else 0}
        content_type, text = b"text/html; charset=utf-8", render_to_string(f"errors/{template}.html", context)
    body = text.encode()
    headers = [
        (b"Content-Type", content_type),
        (b"Content-Length", b"%d" % len(body)),
        (b"Retry-After", b"%d" % RETRY_AFTER_S),
        (b"Cache-Control", b"no-store"),
    ]
    with suppress(OSError):
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
