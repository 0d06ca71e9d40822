"""How often somebody may try a secret. Kept in memory: there is one web process, and a restart forgives."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from dashboard.errors import TooManyAttempts

MAX_KEYS = 10_000


class AttemptLimit:
    """At most ``n_attempts`` failures of one key within ``window_s``; a success forgets them."""

    def __init__(self, n_attempts: int, window_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._n_attempts = n_attempts
        self._window_s = window_s
        self._clock = clock
        self._failures: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def attempt(self, *key: str) -> None:
        """Count one attempt, before its outcome is known: attempts made at the same time count too.

        Raises:
            TooManyAttempts: The key has used up its attempts.
        """
        now = self._clock()
        with self._lock:
            failures = self._failures.setdefault(key, deque())
            self._failures.move_to_end(key)
            while failures and failures[0] <= now - self._window_s:
                failures.popleft()
            if len(failures) >= self._n_attempts:
                minutes = math.ceil((failures[0] + self._window_s - now) / 60)
                raise TooManyAttempts(
                    f"{self._n_attempts} attempts failed.",
                    hint=f"Try again in {minutes} min., or ask an administrator.",
                )
            failures.append(now)
            while len(self._failures) > MAX_KEYS:
                self._failures.popitem(last=False)

    def succeeded(self, *key: str) -> None:
        with self._lock:
            self._failures.pop(key, None)

    def take_back(self, *key: str) -> None:
        """The latest attempt was no failure; those before it stay."""
        with self._lock:
            if failures := self._failures.get(key):
                failures.pop()

    def forget(self) -> None:
        with self._lock:
            self._failures.clear()


SIGN_IN = AttemptLimit(10, 10 * 60)
SIGN_IN_OF_ADDRESS = AttemptLimit(100, 10 * 60)
"""Over all names, asked first: who guesses one password for many names is one who guesses."""
SETUP = AttemptLimit(10, 10 * 60)
