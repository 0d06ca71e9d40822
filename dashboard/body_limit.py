"""How large a request's body may be, decided before Django stores a byte of it.

Django takes a whole body, into a file where it is large, before it looks who sends it. Only pictures to be tried by a
network need more than a form does; for those Django is asked first who is calling.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from dashboard.addresses import inner_path
from dashboard.errors import RequestTooLarge, problem_of
from wire.serving import MAX_REQUEST_BYTES

DRAIN_BYTES: Final = 64 * 2**20
DRAIN_S: Final = 10.0
"""How much of a body that is refused is thrown away as it comes: who is cut off while sending hears no answer."""
FORM_BYTES: Final = 4 * 2**20
PICTURES_BYTES: Final = MAX_REQUEST_BYTES + 2 * 2**20
"""The images, and what names and boundaries of a form take besides."""

_BRINGS_PICTURES = re.compile(r"/api/v1/trainings/[0-9]+/(predict|explain|layers|layer-tiles)")
_OF_THE_BODY = frozenset({b"content-length", b"content-type", b"transfer-encoding", b"expect"})
_WHO_IS_CALLING: Final = "/api/v1/me"

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BodyLimit:
    """ASGI: the application, with no body larger than its address may have."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        limit_bytes = PICTURES_BYTES if _BRINGS_PICTURES.fullmatch(inner_path(scope)) else FORM_BYTES
        told_bytes = content_length(scope)
        if told_bytes is not None and told_bytes > limit_bytes:
            await _refuse(receive, send, limit_bytes)
            return
        if limit_bytes > FORM_BYTES and (told_bytes is None or told_bytes > FORM_BYTES):
            refusal = await self._refusal(scope)
            if refusal:
                for message in refusal:
                    await send(message)
                return
        await _Counted(receive, send, limit_bytes).run(self._application, scope)

    async def _refusal(self, scope: dict[str, Any]) -> list[Message]:
        """What Django answers somebody whom it does not know; empty for those whom it does."""
        headers = [each for each in scope["headers"] if each[0].lower() not in _OF_THE_BODY]
        path = f"{scope.get('root_path', '')}{_WHO_IS_CALLING}"
        asked = {**scope, "method": "GET", "path": path, "raw_path": path.encode()}
        heard: list[Message] = []

        async def hear(message: Message) -> None:
            heard.append(message)

        await self._application({**asked, "query_string": b"", "headers": headers}, no_body(), hear)
        return [] if heard and heard[0]["status"] == 200 else heard


class _Counted:
    """One request: ended for Django, as if its client had left, where more comes than may."""

    def __init__(self, receive: Receive, send: Send, limit_bytes: int) -> None:
        self._receive = receive
        self._send = send
        self._limit_bytes = limit_bytes
        self._n_bytes = 0
        self._has_answered = False

    async def run(self, application: Any, scope: dict[str, Any]) -> None:
        await application(scope, self._hear, self._tell)
        if self._is_too_large and not self._has_answered:
            await _refuse(self._receive, self._send, self._limit_bytes)

    @property
    def _is_too_large(self) -> bool:
        return self._n_bytes > self._limit_bytes

    async def _hear(self) -> Message:
        message = await self._receive()
        self._n_bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._is_too_large else message

    async def _tell(self, message: Message) -> None:
        self._has_answered = True
        await self._send(message)


def content_length(scope: dict[str, Any]) -> int | None:
    """What the client announced; None where it announced nothing, or no number."""
    for name, value in scope["headers"]:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


def no_body() -> Receive:
    """An empty body, then silence: to Django nobody hangs up."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    return receive


async def _drain(receive: Receive) -> None:
    n_bytes, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while more and n_bytes < DRAIN_BYTES:
                message = await receive()
                n_bytes += len(message.get("body", b""))
                more = bool(message.get("more_body", False))


async def _refuse(receive: Receive, send: Send, limit_bytes: int) -> None:
    await _drain(receive)
    problem = problem_of(
        RequestTooLarge(
            f"A request to this address may hold {limit_bytes / 2**20:.0f} MiB; this one holds more.",
            hint="Bring images as an upload, which may be as large as the server allows.",
        )
    )
    body = json.dumps(problem.body()).encode()
    # What is left of the body is not waited for, so that the connection cannot be used again.
    headers = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
        (b"Cache-Control", b"no-store"),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
