"""Fovea below a folder of a site, such as ``https://example.org/fovea/``.

A proxy hands addresses on as they came. So the same addresses work with and without it, and
nothing has to be told twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Asked by whoever looks after the process, who need not know under which folder people see it."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class BelowPrefix:
    """ASGI: the application at ``prefix`` and nowhere else. The front page leads there."""

    def __init__(self, application: Any, prefix: str) -> None:
        self._application = application
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._prefix or scope["type"] not in {"http", "websocket"}:
            await self._application(scope, receive, send)
        elif (inner := self._inner_path(scope["path"])) is None:
            await self._refuse(scope, send)
        else:
            told = {**scope, "root_path": self._prefix, "path": f"{self._prefix}{inner}"}
            await self._application(told, receive, send)

    def _inner_path(self, path: str) -> str | None:
        """The path as the application knows it; None for what is not below the prefix."""
        if path in PROBES:
            return path
        inner = path.removeprefix(self._prefix)
        return inner if inner != path and inner.startswith("/") else None

    async def _refuse(self, scope: Scope, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4404})
            return
        home = f"{self._prefix}/"
        leads_home = scope["path"] in {"/", self._prefix}
        text = "" if leads_home else f"Fovea is at {home} of this site.\n"
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
        if leads_home:
            headers.append((b"location", home.encode()))
        await send({"type": "http.response.start", "status": 307 if leads_home else 404, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})
