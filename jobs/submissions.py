"""A job that is asked for twice by the same wish is made once.

An answer may be lost on its way back, that of the database to a COMMIT too. So each wish has a key, which is written in
the transaction that makes the job, and whoever does not know what became of a wish looks for its key.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.utils import timezone

from jobs.database import MOST_REPEATS, Trouble, let_go_if_broken, pause_before_repeat, trouble_of
from jobs.models import Job, Submission
from jobs.states import ENDED, Status

KEPT: Final = timedelta(days=1)

P = ParamSpec("P")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """What names a wish, as the client says it."""

    text: str
    while_it_lasts: bool = False
    """Of a page, which a person may go back to and send once more on purpose: forgotten once the job has ended."""


_key_told: ContextVar[Callable[[], Key | None]] = ContextVar("_key_told", default=lambda: None)


class _Twice(Exception):
    """The same wish was being granted at the same time."""


@contextmanager
def asked_with(key: Callable[[], Key | None]) -> Iterator[None]:
    """Around what a request does: where its key can be had, should one be needed."""
    token = _key_told.set(key)
    try:
        yield
    finally:
        _key_told.reset(token)


def submitted_once(function: Callable[Concatenate[User, P], Job]) -> Callable[Concatenate[User, P], Job]:
    """``transaction.atomic`` for a service that makes a job for a user: once for each key and the same arguments.

    Tried again where another transaction was in the way, or the connection broke, perhaps while it was committed.
    """

    @wraps(function)
    def submitted(user: User, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        if connection.in_atomic_block:
            with transaction.atomic():
                return function(user, *args, **kwargs)
        key = _key_told.get()() or Key(secrets.token_hex(16))
        hashed = _hashed(function.__name__, key, args, kwargs)
        n_repeats = 0
        while True:
            try:
                with transaction.atomic():
                    earlier = _earlier(user, key, hashed)
                    return earlier or _noted(user, hashed, function(user, *args, **kwargs))
            except (DatabaseError, InterfaceError, _Twice) as error:
                if n_repeats == MOST_REPEATS or not _is_passing(error):
                    raise
                log.info("%s again: %s", function.__name__, error)
            let_go_if_broken()
            pause_before_repeat(n_repeats)
            n_repeats += 1

    return submitted


def _is_passing(error: Exception) -> bool:
    return isinstance(error, _Twice) or trouble_of(error) in {Trouble.CONFLICT, Trouble.AWAY}


def _hashed(name: str, key: Key, args: Any, kwargs: Any) -> str:
    """Requests are data classes, whose text says all that they are."""
    return hashlib.sha256(repr((name, key.text, args, sorted(kwargs.items()))).encode()).hexdigest()


def _earlier(user: User, key: Key, hashed: str) -> Job | None:
    """The job that came of the wish before."""
    found = Submission.objects.filter(owner=user, key=hashed).select_related("job__owner", "job__part_of").first()
    if found is None:
        return None
    is_over = found.job.trashed_at is not None or (key.while_it_lasts and Status(found.job.status) in ENDED)
    if is_over:
        found.delete()
        return None
    log.info("job=%s was asked for before, with the same key", found.job_id)
    return found.job


def _noted(user: User, hashed: str, job: Job) -> Job:
    try:
        with transaction.atomic():
            Submission.objects.create(owner=user, key=hashed, job=job)
    except IntegrityError:
        raise _Twice from None
    return job


def forget_submissions() -> None:
    Submission.objects.filter(at__lt=timezone.now() - KEPT).delete()
