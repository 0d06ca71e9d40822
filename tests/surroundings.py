"""What a test may not leave behind for the next one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psutil

Found = TypeVar("Found")
_shared_pids: set[int] = set()
_shared_threads: set[threading.Thread] = set()


@contextmanager
def shared_processes() -> Iterator[None]:
    """Around the start of a server or browser that outlives a test: a fixture of the module or the session ends it."""
    pids, threads = _child_pids(), set(threading.enumerate())
    yield
    _shared_pids.update(_child_pids() - pids)
    _shared_threads.update(set(threading.enumerate()) - threads)


def until(condition: Callable[[], Found | None], *, timeout_s: float = 120.0) -> Found:
    """Wait for a condition; the limit only ends a test that would never end."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {timeout_s} s: {condition}")
        time.sleep(0.02)
    return value


class Surroundings:
    """What a test may not change for the next one: the environment, child processes, threads."""

    def __init__(self) -> None:
        self.environment = self._environment()
        self.children = _child_pids()
        self.threads = set(threading.enumerate())

    @staticmethod
    def _environment() -> dict[str, str]:
        ours = {"FOVEA_TEST_DATABASE"}
        return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_") and k not in ours}

    def check(self) -> None:
        now = self._environment()
        names = self.environment.keys() | now.keys()
        changed = sorted(name for name in names if self.environment.get(name) != now.get(name))
        assert not changed, f"environment changed: {changed}"
        children = psutil.Process().children(recursive=True)
        left = [child for child in children if child.pid not in self.children and not _is_shared(child)]
        for child in left:
            child.kill()
        assert not left, f"processes left: {left}"
        deadline = time.monotonic() + 5
        while (threads := self._threads_left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not threads, f"threads left: {threads}"

    def _threads_left(self) -> list[str]:
        new = set(threading.enumerate()) - self.threads - _shared_threads
        return [thread.name for thread in new if _matters(thread)]


def _child_pids() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _is_shared(child: psutil.Process) -> bool:
    """A shared process, a child of one, or nothing any more: a zombie is dead."""
    try:
        if child.status() == psutil.STATUS_ZOMBIE:
            return True
        return not _shared_pids.isdisjoint({child.pid, *(parent.pid for parent in child.parents())})
    except psutil.NoSuchProcess:
        return True


def _matters(thread: threading.Thread) -> bool:
    # asgiref and tqdm keep daemon threads for the life of the process, asgiref and asyncio the workers of their pools.
    pools = ("ThreadPoolExecutor", "asyncio_")
    return thread.is_alive() and not thread.daemon and not thread.name.startswith(pools)
