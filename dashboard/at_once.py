"""How many requests Django works on at once.

Each has a thread and a connection of the database for as long as it takes. Without a bound, a crowd would take all
connections there are, those by which running trainings are recorded among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from io import BytesIO
from typing import Any, Final
from weakref import WeakKeyDictionary

from csp.middleware import CSPMiddleware
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.urls import set_script_prefix

from dashboard.addresses import inner_path
from dashboard.errors import ServerBusy, answer

MOST: Final = 24
PATIENCE_S: Final = 10.0
"""For a place; whoever waits longer is asked to come again."""
_ALWAYS_LET_IN: Final = frozenset({"/healthz", "/readyz"})

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _NoPlace(Exception):
    """None became free within the patience there is."""


class AtOnce:
    """ASGI: the application, with at most so many requests in it, each from the end of its body on.

    So nobody keeps a place by sending slowly. What is answered in pieces needs no place any more.
    """

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
        place = _Place(places)

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                await place.take()
            return message

        async def tell(message: Message) -> None:
            if message.get("more_body"):
                place.leave()
            await send(message)

        try:
            await self._application(scope, hear, tell)
        except _NoPlace:
            await _refuse(scope, send)
        finally:
            place.leave()


class _Place:
    """Of one request, which takes it once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._is_taken = False

    async def take(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._places.acquire()
        except TimeoutError:
            raise _NoPlace from None
        self._is_taken = True

    def leave(self) -> None:
        if self._is_taken:
            self._is_taken = False
            self._places.release()


async def _refuse(scope: dict[str, Any], send: Send) -> None:
    set_script_prefix(get_script_prefix(scope))
    request = ASGIRequest(scope, BytesIO())
    busy = ServerBusy("The server has more to do than it can at the moment.", hint="Try again in a few seconds.")
    response = answer(request, busy)
    _protect(request, response)
    response.headers["Content-Length"] = str(len(response.content))
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    with suppress(OSError):
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": response.content})


def _protect(request: HttpRequest, response: HttpResponse) -> None:
    """The headers that Django's middleware would have added."""
    for each in (CSPMiddleware, SecurityMiddleware, XFrameOptionsMiddleware):
        each(lambda _: response).process_response(request, response)
