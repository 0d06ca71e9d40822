"""A name for each request, in the log and in its answer, so that one is found by the other."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

from jobs.log_context import logged_with

HEADER: Final = b"x-request-id"
_USABLE: Final = re.compile(rb"[A-Za-z0-9-]{8,64}")


class NamedRequests:
    """ASGI: takes over the name that a proxy has given, and gives one otherwise."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._application(scope, receive, send)
            return
        name = _given(scope) or uuid.uuid4().hex.encode()

        async def tell(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), (HEADER, name)]}
            await send(message)

        with logged_with(request=name.decode()):
            await self._application(scope, receive, tell)


def _given(scope: dict[str, Any]) -> bytes | None:
    """None where there is none, or one that would not stay on its line of the log."""
    for header, value in scope["headers"]:
        if header.lower() == HEADER and _USABLE.fullmatch(value):
            return bytes(value)
    return None
