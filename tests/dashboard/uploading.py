"""A browser's end of an upload's piece, without a network: its bytes come when the test says so."""

from __future__ import annotations

import json

from asgiref.testing import ApplicationCommunicator

from config.asgi import application
from tests.tus import PIECE

PATIENCE_S = 20
CSRF_SECRET = "k" * 32
SAME_ORIGIN = {"Host": "testserver", "Origin": "http://testserver"}


def session_headers(client):
    cookie = f"sessionid={client.cookies['sessionid'].value}; csrftoken={CSRF_SECRET}"
    return {**SAME_ORIGIN, "Cookie": cookie, "X-CSRFToken": CSRF_SECRET}


class Piece(ApplicationCommunicator):
    """One PATCH request. A header that is None is left out."""

    def __init__(self, path, headers, *, offset=0, **changes):
        told = {**PIECE, "Upload-Offset": str(offset), **headers}
        told |= {name.replace("_", "-"): value for name, value in changes.items()}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "method": "PATCH",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "client": ("127.0.0.1", 50_000),
            "server": ("testserver", 80),
            "headers": [(name.lower().encode(), value.encode()) for name, value in told.items() if value is not None],
        }
        super().__init__(application, scope)

    async def bring(self, data, *, more=True):
        await self.send_input({"type": "http.request", "body": data, "more_body": more})

    async def cut(self):
        """The connection breaks; nobody hears an answer."""
        await self.send_input({"type": "http.disconnect"})
        await self.wait(PATIENCE_S)

    async def answer(self):
        """Status, headers in lower case, and the JSON of an error."""
        start = await self.receive_output(PATIENCE_S)
        body = b""
        while True:
            message = await self.receive_output(PATIENCE_S)
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self.wait(PATIENCE_S)
        headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        is_json = headers.get("content-type", "").startswith("application/json")
        return start["status"], headers, json.loads(body) if is_json else {}

    async def leave(self):
        if not self.future.done():
            await self.cut()


async def bring_all(path, headers, data, *, offset=0, **changes):
    piece = Piece(path, headers, offset=offset, **changes)
    await piece.bring(data, more=False)
    return await piece.answer()
