"""A browser's end of a socket, over the network: what it was sent, in order, over as many connections as it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.faults.web import Web

MESSAGE_WITHIN_S = 60.0


class Follower:
    """Goes on where it was each time, as a page does."""

    def __init__(self, web: Web, job_id: int) -> None:
        self._web = web
        self._job_id = job_id
        self._connection: ClientConnection | None = None
        self._opened = ExitStack()
        self.seqs: list[int] = []
        self.said: list[dict[str, Any]] = []
        """Every message that brought no events."""

    @property
    def after(self) -> int:
        return self.seqs[-1] if self.seqs else 0

    def open(self) -> None:
        connecting = connect(
            f"ws://127.0.0.1:{self._web.port}/ws/jobs/{self._job_id}/?after={self.after}",
            additional_headers={"Authorization": f"Bearer {self._web.token}"},
            open_timeout=60,
            max_size=None,
        )
        self._connection = self._opened.enter_context(connecting)

    def close(self) -> None:
        self._opened.close()

    @property
    def is_open(self) -> bool:
        """Answers a ping, which no database and no Redis is asked for."""
        connection = self._connection
        if connection is None:
            return False
        with suppress(WebSocketException):
            connection.send(json.dumps({"type": "ping"}))
            self.until(lambda: {"type": "pong"} in self.said)
            return True
        return False

    def until(self, condition: Callable[[], bool]) -> None:
        """Take messages until it holds.

        Raises:
            TimeoutError: nothing came for a long time.
            WebSocketException: the server closed it.
        """
        while not condition():
            self.take()

    def take(self) -> None:
        assert self._connection is not None
        message = json.loads(self._connection.recv(timeout=MESSAGE_WITHIN_S))
        if message["type"] == "events":
            self.seqs += [each["seq"] for each in message["events"]]
        else:
            self.said.append(message)

    def says_live(self, *, ok: bool) -> None:
        """Take messages until the last word on it is this one."""
        self.until(lambda: [each["ok"] for each in self.said if each["type"] == "live"][-1:] == [ok])

    def hear_up_to(self, seq: int) -> None:
        self.until(lambda: self.after >= seq)

    def has_all(self, n_events: int) -> bool:
        """Each one once and in order."""
        return self.seqs == list(range(1, n_events + 1))
