"""Work done ahead of its use, by threads, in order. Pillow, hashing and reading let go of the interpreter's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

N_DECODE_THREADS = min(8, os.cpu_count() or 1)


def map_ahead(
    function: Callable[[Given], Made], items: Iterable[Given], *, n_threads: int, n_ahead: int
) -> Generator[Made, None, None]:
    """``map`` that works on up to ``n_ahead`` items before they are asked for.

    Closing the iterator (or leaving its loop and dropping it) waits for the items in work and ends the threads. What
    ``function`` raises is raised at the item's turn.
    """
    threads = ThreadPoolExecutor(n_threads, thread_name_prefix="ahead")
    remaining = iter(items)
    pending: deque[Future[Made]] = deque()
    try:
        pending.extend(threads.submit(function, item) for item in islice(remaining, n_ahead))
        while pending:
            made = pending.popleft().result()
            pending.extend(threads.submit(function, item) for item in islice(remaining, 1))
            yield made
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
