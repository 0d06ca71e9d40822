"""Browsers' ends of the sockets of runs: what each was sent, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field

import websockets

from benchmarks.installation import Installation

LARGEST_MESSAGE_BYTES = 64 * 2**20
ANSWER_WITHIN_S = 60


@dataclass
class Browser:
    """Goes on where it was, as a page does."""

    installation: Installation
    job_id: int
    last_seq: int = 0
    n_doubled: int = 0
    n_missed: int = 0
    n_refused: int = 0
    caught_up_s: list[float] = field(default_factory=list)
    """From opening each connection to having all that there was."""

    def connect(self) -> websockets.connect:
        return websockets.connect(
            f"ws://127.0.0.1:{self.installation.stack.port}/ws/jobs/{self.job_id}/?after={self.last_seq}",
            additional_headers={"Authorization": f"Bearer {self.installation.token}"},
            open_timeout=ANSWER_WITHIN_S,
            max_size=LARGEST_MESSAGE_BYTES,
        )

    async def look_in(self) -> None:
        """Connect, take what there is, and go."""
        began = time.perf_counter()
        try:
            async with self.connect() as connection:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    while not self._takes_last(await connection.recv()):
                        pass
                self.caught_up_s.append(time.perf_counter() - began)
        except (OSError, TimeoutError, websockets.WebSocketException):
            self.n_refused += 1

    async def stay(self) -> None:
        """Take what comes until the server closes, or the task is cancelled."""
        with suppress(websockets.WebSocketException):
            async with self.connect() as connection:
                async for text in connection:
                    self._takes_last(text)

    def _takes_last(self, text: str | bytes) -> bool:
        """Whether the server says by this that it has sent all there was."""
        message = json.loads(text)
        for envelope in message.get("events", ()):
            seq = envelope["seq"]
            self.n_doubled += seq <= self.last_seq
            self.n_missed += max(0, seq - self.last_seq - 1)
            self.last_seq = max(self.last_seq, seq)
        return bool(message["type"] == "live")
