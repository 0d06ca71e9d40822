"""What pages and the API say of a database that cannot do what it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.database import Trouble, trouble_of
from wire.errors import DatabaseUnavailable

RETRY_AFTER_S: Final = 5
"""What clients are told; a database that was killed is back in about as long."""

_GOES_ON: Final = "Trainings go on and are recorded afterwards. A job that was started already is not started twice."
_WORDS: Final[Mapping[Trouble, tuple[str, str]]] = {
    Trouble.AWAY: ("The database does not answer.", f"Try again in a few seconds. {_GOES_ON}"),
    Trouble.CROWDED: ("The database has no free connection.", f"Try again in a few seconds. {_GOES_ON}"),
    Trouble.BUSY: ("The database is kept busy by something else.", f"Try again in a few seconds. {_GOES_ON}"),
    Trouble.CONFLICT: (
        "Somebody changed the same at the same moment.",
        "This request changed nothing. Try again.",
    ),
    Trouble.FULL: (
        "The disk of the database is full: what there is can be read, but nothing can be changed.",
        "Make room on it, or tell whoever runs this server. Trainings go on and are recorded afterwards.",
    ),
}


def unavailable(error: BaseException | None) -> DatabaseUnavailable | None:
    """What to tell of an error of the database that no change to the request mends; None of every other error."""
    trouble = trouble_of(error)
    if trouble is None:
        return None
    message, hint = _WORDS[trouble]
    return DatabaseUnavailable(message, hint=hint)
