from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.db import DatabaseError


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    """Of the check, for programs: ``storage.room``."""
    level: Level
    text: str
    """A sentence with the value that was found."""
    step: str = ""
    """What to do next; of every warning and problem."""

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]


Check = Callable[[], Iterable[Finding]]


def ok(name: str, text: str) -> Finding:
    return Finding(name, Level.OK, text)


def warning(name: str, text: str, step: str) -> Finding:
    return Finding(name, Level.WARNING, text, step)


def problem(name: str, text: str, step: str) -> Finding:
    return Finding(name, Level.PROBLEM, text, step)


def look(checks: Iterable[Check]) -> list[Finding]:
    """What they find. A check that cannot be made is a finding too."""
    return [finding for check in checks for finding in _found(check)]


def _found(check: Check) -> Iterator[Finding]:
    name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
    try:
        yield from list(check())
    except DatabaseError:
        yield warning(name, "Was not looked at: the database does not answer.", "Mend the database first.")
    except Exception as error:  # noqa: BLE001 - the doctor says what is wrong, whatever it is
        yield problem(
            name, f"Could not be looked at: {type(error).__name__}: {error}.", "Report this, with these words."
        )
