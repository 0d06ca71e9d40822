"""How fast a job goes, and how long it may be silent before something is wrong. Pure: no process, no files."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from wire.events import AttemptStarted, Envelope, Event, Progress, Scalars

FACTOR = 3.0
FEWEST_INTERVALS = 3
"""Fewer tell no pace."""
MOST_INTERVALS = 200
PATIENCE_BETWEEN = 10.0
"""Times the least silence: between two stages, where nobody knows yet how long that takes."""
LOOKED_AWAY_S = 10.0
"""A watcher that did not look for so long was held up itself; that is nobody else's silence."""
MACHINE_SERIES = ("cpu/", "ram/", "gpu")
"""Written by a thread that watches the machine, which goes on when the work hangs."""
BEGINNING = "beginning"


@dataclass(frozen=True, slots=True)
class Silence:
    """Longer than the job's own pace explains."""

    silent_s: float
    median_s: float | None
    """Between two signs of life in this stage; None where there were too few."""
    stage: str
    done: int

    def __str__(self) -> str:
        pace = "" if self.median_s is None else f", where it took {_seconds(self.median_s)} before"
        where = f" after {self.done:,} in the stage “{self.stage}”" if self.stage else ""
        return f"no step for {_seconds(self.silent_s)}{where}{pace}"


class Pace:
    """Learns from the events of one attempt what its silences are.

    Steps follow one another in a stage; after its last one comes something else: another stage, a validation after
    the last step of an epoch. How long that takes is learned by its place, and until it was seen once, a watcher is
    patient: ten times the least silence, or three times as long as what came before it took.

    Args:
        least_s: a shorter silence is never too long.
        steps_per_epoch: of the stage "train"; 0 where it is not known.
        judges_beginnings: whether a silence is judged where no pace is known yet.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        least_s: float,
        steps_per_epoch: int = 0,
        judges_beginnings: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._least_s = least_s
        self._steps_per_epoch = steps_per_epoch
        self._judges_beginnings = judges_beginnings
        self._clock = clock
        self._stage, self._done, self._total, self._step = "", 0, 0, 0
        self._named: set[str] = set()
        self._intervals: deque[float] = deque(maxlen=MOST_INTERVALS)
        self._place = BEGINNING
        self._pauses: dict[str, float] = {}
        """The longest silence at each place that has been left."""
        self._pause_s = 0.0
        self._before_s = 0.0
        """How long the steps took that led to the present place."""
        self._place_began: datetime | None = None
        self._last_at: datetime | None = None
        self._heard_at = self._looked_at = clock()

    def saw(self, envelopes: Iterable[Envelope]) -> None:
        """Take what the job said since the last time, in order."""
        for envelope in envelopes:
            event = envelope.event
            is_sign = not isinstance(event, Scalars) or self._is_new(event)
            if is_sign:
                self._take(event, envelope.at)
                self._heard_at = self._clock()
            self._move_to(self._place_now(), envelope.at)

    def silence(self) -> Silence | None:
        """The present silence, if it is too long. To be asked every few seconds."""
        now = self._clock()
        away_s = now - self._looked_at
        self._looked_at = now
        if away_s > LOOKED_AWAY_S:
            self._heard_at = min(now, self._heard_at + away_s)
        silent_s = now - self._heard_at
        limit_s = self._limit_s()
        if limit_s is None or silent_s <= limit_s:
            return None
        return Silence(silent_s, self._median_s(), self._stage, self._done)

    def _is_new(self, event: Scalars) -> bool:
        """Whether these values are more than another look at the machine."""
        names = {name for name in event.values if not name.startswith(MACHINE_SERIES)}
        if event.step > self._step:
            self._step, self._named = event.step, set()
            return True
        is_new = not names <= self._named
        self._named |= names
        return is_new

    def _take(self, event: Event, at: datetime) -> None:
        took_s = 0.0 if self._last_at is None else max(0.0, (at - self._last_at).total_seconds())
        self._last_at = at
        self._pause_s = max(self._pause_s, took_s)
        if isinstance(event, AttemptStarted):
            self._steps_per_epoch, self._step = event.steps_per_epoch, event.from_step
        if not isinstance(event, Progress):
            return
        if event.stage != self._stage:
            self._intervals.clear()
        elif not self._place:
            self._intervals.append(took_s)
        self._stage, self._done, self._total = event.stage, event.done, event.total
        if event.stage == "train":
            self._step = max(self._step, event.done)

    def _place_now(self) -> str:
        """Where something else than the next step may follow; empty in the midst of a stage."""
        if not self._stage:
            return BEGINNING
        if self._total and self._done >= self._total:
            return f"after {self._stage}"
        # Not every step is told, but the machine's state is, with the step at which it was so.
        if self._stage == "train" and self._steps_per_epoch and self._step % self._steps_per_epoch == 0:
            return "after an epoch"
        return ""

    def _move_to(self, place: str, at: datetime) -> None:
        if place == self._place:
            return
        since_s = 0.0 if self._place_began is None else max(0.0, (at - self._place_began).total_seconds())
        if self._place:
            self._pauses[self._place] = max(self._pause_s, self._pauses.get(self._place, 0.0))
        else:
            self._before_s = since_s
        self._place, self._place_began, self._pause_s = place, at, 0.0

    def _limit_s(self) -> float | None:
        if not self._place:
            pace_s = self._median_s()
            if pace_s is not None:
                return max(self._least_s, FACTOR * pace_s)
            known_s = 0.0
        elif self._place in self._pauses and self._place != BEGINNING:
            return max(self._least_s, FACTOR * self._pauses[self._place])
        else:
            known_s = self._before_s
        return max(PATIENCE_BETWEEN * self._least_s, FACTOR * known_s) if self._judges_beginnings else None

    def _median_s(self) -> float | None:
        return median(self._intervals) if len(self._intervals) >= FEWEST_INTERVALS else None


def _seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
