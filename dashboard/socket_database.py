"""What sockets ask the database: by a few threads for all of them, however many come at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from django.db import connections

MOST_CONNECTIONS: Final = 2
"""Each question takes a millisecond, and one interpreter answers them all."""

T = TypeVar("T")


class Desk:
    """Questions are answered in turn. A connection is kept while there is a queue, and no longer.

    So a thousand browsers that come back at once open two connections, and a quiet server holds none.
    """

    def __init__(self, n_threads: int = MOST_CONNECTIONS) -> None:
        self._threads = ThreadPoolExecutor(n_threads)
        self._lock = threading.Lock()
        self._n_asked = 0

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer, or what the question raised."""
        with self._lock:
            self._n_asked += 1
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)

    def _answer(self, question: Callable[[], T]) -> T:
        failed = True
        try:
            answer = question()
            failed = False
            return answer
        finally:
            with self._lock:
                self._n_asked -= 1
                is_last = self._n_asked == 0
            if failed or is_last:
                connections.close_all()


desk = Desk()
"""The one of this process."""
