"""What an error of the database means, and transactions that are tried again."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from django.db import DatabaseError, Error, InterfaceError, OperationalError, connection, transaction

MOST_REPEATS: Final = 3
LONGEST_PAUSE_S: Final = 0.05
"""Before the first repeat; twice as long before each further one, and a random part of it."""

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class Trouble(StrEnum):
    """What no change to a request mends."""

    AWAY = "away"
    CROWDED = "crowded"  # it has no free connection
    FULL = "full"  # its disk is; it can still be read
    BUSY = "busy"  # somebody else writes, for too long
    CONFLICT = "conflict"  # another transaction was in the way of this one, which can be tried again


# https://www.postgresql.org/docs/current/errcodes-appendix.html and https://www.sqlite.org/rescode.html
_BY_STATE: Final = {
    "25P03": Trouble.AWAY,  # it let go of who was frozen in the middle of a transaction
    "40001": Trouble.CONFLICT,
    "40P01": Trouble.CONFLICT,
    "53100": Trouble.FULL,
    "53300": Trouble.CROWDED,
    "55P03": Trouble.BUSY,
    "57014": Trouble.BUSY,
}
_BY_STATE_CLASS: Final = {"08": Trouble.AWAY, "53": Trouble.AWAY, "57": Trouble.AWAY, "58": Trouble.AWAY}
_BY_SQLITE_CODE: Final = {
    5: Trouble.BUSY,
    6: Trouble.BUSY,
    10: Trouble.AWAY,
    13: Trouble.FULL,
    14: Trouble.AWAY,
}
# Who is not let in is told why in words alone.
_BY_WORDS: Final = {
    "No space left on device": Trouble.FULL,
    "too many clients": Trouble.CROWDED,
    "too many connections": Trouble.CROWDED,
    "connection slots are reserved": Trouble.CROWDED,
}


def trouble_of(error: BaseException | None) -> Trouble | None:
    """None of what is no fault of the database's surroundings: a wrong statement, a violated constraint."""
    if not isinstance(error, Error):
        return None
    cause = error.__cause__
    state: str | None = getattr(cause, "sqlstate", None)
    code: int | None = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        # The lower byte is the kind; the rest says where.
        return _BY_SQLITE_CODE.get(code & 0xFF)
    if by_words := next((found for words, found in _BY_WORDS.items() if words in str(error)), None):
        return by_words
    if state is not None:
        return _BY_STATE.get(state) or _BY_STATE_CLASS.get(state[:2])
    return Trouble.AWAY if isinstance(error, OperationalError | InterfaceError) else None


def let_go_if_broken() -> None:
    """Close this thread's connection where it is of no use any more, and only there: another one may not be had."""
    # Of a file another one can always be had.
    usable = connection.vendor != "sqlite" and connection.connection is not None
    try:
        usable = usable and connection.is_usable()
    except Error:
        usable = False
    if not usable:
        connection.close()


def pause_before_repeat(n_repeats: int) -> None:
    """Of a random length, so that those who were in each other's way are not so again."""
    time.sleep(random.uniform(0, LONGEST_PAUSE_S * 2**n_repeats))  # noqa: S311


def stay_in_transaction() -> None:
    """The present transaction may idle for as long as a disk takes: PostgreSQL does not end it for that."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def atomically(function: Callable[P, T]) -> Callable[P, T]:
    """``transaction.atomic``, for a function that may be called again where another transaction was in its way.

    Inside a transaction it is a savepoint: then that one is tried again as a whole, or not.
    """

    @wraps(function)
    def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        n_repeats = 0
        while True:
            nested = connection.in_atomic_block
            try:
                with transaction.atomic():
                    return function(*args, **kwargs)
            except DatabaseError as error:
                if nested or n_repeats == MOST_REPEATS or trouble_of(error) is not Trouble.CONFLICT:
                    raise
                log.info("%s again, after a conflict: %s", function.__name__, error)
            pause_before_repeat(n_repeats)
            n_repeats += 1

    return tried
