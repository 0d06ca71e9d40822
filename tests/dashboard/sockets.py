"""A browser's end of a socket, without a network. (``channels.testing`` cannot be imported without daphne.)"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator

from config.asgi import application

PATIENCE_S = 20
SAME_ORIGIN = ((b"host", b"testserver"), (b"origin", b"http://testserver"))


def session_of(client):
    return (b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode())


class Socket(ApplicationCommunicator):
    def __init__(self, path, *headers, origin=SAME_ORIGIN):
        address = urlsplit(path)
        scope = {
            "type": "websocket",
            "path": address.path,
            "query_string": address.query.encode(),
            "headers": [*origin, *headers],
            "subprotocols": [],
        }
        super().__init__(application, scope)

    async def open(self):
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(PATIENCE_S))["type"] == "websocket.accept"

    async def next(self):
        """The next message, or the code with which the server closed."""
        output = await self.receive_output(PATIENCE_S)
        return output["code"] if output["type"] == "websocket.close" else json.loads(output["text"])

    async def until(self, kind, **fields):
        """The next message of this kind; those before it are dropped."""
        while True:
            message = await self.next()
            if isinstance(message, dict) and {"type": kind, **fields}.items() <= message.items():
                return message

    async def events(self, n):
        """The next ``n`` events, whatever messages they come in."""
        found = []
        while len(found) < n:
            found += (await self.until("events"))["events"]
        return found

    async def say(self, message):
        await self.send_input({"type": "websocket.receive", "text": json.dumps(message)})

    async def leave(self):
        if not self.future.done():
            await self.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.wait(PATIENCE_S)


@asynccontextmanager
async def connected(path, *headers):
    socket = Socket(path, *headers)
    assert await socket.open()
    try:
        yield socket
    finally:
        await socket.leave()
