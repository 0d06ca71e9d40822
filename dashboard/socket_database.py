"""What sockets ask the database: by a few threads for all of them, however many come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from django.db import connections

MOST_CONNECTIONS: Final = 2
"""Each question takes a millisecond, and one interpreter answers them all."""

T = TypeVar("T")


class _Clerk:
    """A thread with a connection, which is closed when nobody waits any more, and after a fault."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self.n_waiting = 0

    async def ask(self, question: Callable[[], T]) -> T:
        self.n_waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, _answer, question)
        finally:
            # Also for those who did not wait for their turn. What is answered yet is answered before it is closed.
            self.n_waiting -= 1
            if not self.n_waiting:
                self._thread.submit(connections.close_all)


def _answer(question: Callable[[], T]) -> T:
    try:
        return question()
    except BaseException:
        connections.close_all()
        raise


class Desk:
    """Questions are answered in turn. A connection is kept while there is a queue, and no longer.

    So a thousand browsers that come back at once open two connections, and a quiet server holds none.
    """

    def __init__(self, n_clerks: int = MOST_CONNECTIONS) -> None:
        self._clerks = [_Clerk() for _ in range(n_clerks)]

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer, or what the question raised."""
        return await min(self._clerks, key=lambda clerk: clerk.n_waiting).ask(question)


desk = Desk()
"""The one of this process."""
