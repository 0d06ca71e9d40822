"""The attempts of a run as its page tells them: where each began, whether exactly, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.models import Attempt
from jobs.selectors import NoticeInfo

EXACT, NOT_EXACT = "resume.exact", "resume.not_exact"


@dataclass(frozen=True, slots=True)
class AttemptRow:
    n: int
    started_at: datetime
    took_s: float | None
    """None while it goes on."""
    from_step: int | None
    """None before it has said so."""
    resumed: str
    """The sentence about how exactly it goes on; empty where it began at the beginning, or did not say."""
    exact: bool
    where: str
    ended: str


def attempt_rows(attempts: Sequence[Attempt], notices: Sequence[NoticeInfo]) -> list[AttemptRow]:
    """A row for each attempt, the newest first.

    Args:
        attempts: of one job, by their number.
        notices: of the same job, by their ``seq``.
    """
    rows = [_row(attempt, _first_about_resuming(notices, *span)) for attempt, span in _spans(attempts)]
    return rows[::-1]


def _spans(attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt, tuple[int, int | None]]]:
    """Each attempt that has begun with the ``seq`` of its first event, and that of the next one's; the others empty."""
    firsts = [attempt.started_seq for attempt in attempts]
    following = [next((seq for seq in firsts[place + 1 :] if seq is not None), None) for place in range(len(firsts))]
    for attempt, first, end in zip(attempts, firsts, following, strict=True):
        yield attempt, (first, end) if first is not None else (0, 0)


def _first_about_resuming(notices: Sequence[NoticeInfo], first: int, end: int | None) -> NoticeInfo | None:
    mine = (notice for notice in notices if first <= notice.seq and (end is None or notice.seq < end))
    return next((notice for notice in mine if notice.code in {EXACT, NOT_EXACT}), None)


def _row(attempt: Attempt, resumed: NoticeInfo | None) -> AttemptRow:
    ended_at = attempt.ended_at
    return AttemptRow(
        n=attempt.n,
        started_at=attempt.started_at,
        took_s=max(0.0, (ended_at - attempt.started_at).total_seconds()) if ended_at else None,
        from_step=attempt.from_step if attempt.started_seq is not None else None,
        resumed=resumed.text if resumed else "",
        exact=resumed is not None and resumed.code == EXACT,
        where=", ".join([*attempt.devices, attempt.host]),
        ended=attempt.reason if ended_at else "goes on",
    )
