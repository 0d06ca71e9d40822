"""The host is about to stop, and every process on it: what runs here saves and ends first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.db import Error as DatabaseError

from jobs.services.power import trainings_suspend

SAVE_PATIENCE_S: Final = 75.0
"""A step, a checkpoint and some air; the supervisor of a run kills it after 60 s."""


def save_what_runs_here(say: Callable[[str], object]) -> None:
    """Returns when all has ended, or patience has. Another host goes on with it, or this one at its next start."""
    try:
        n_left = trainings_suspend(only_here=True, wait_s=SAVE_PATIENCE_S)
    except DatabaseError as problem:
        say(f"The database cannot be used ({problem}): what runs here is not waited for.")
    else:
        say(f"{n_left} still run; they go on from their last checkpoints." if n_left else "Nothing runs here any more.")
