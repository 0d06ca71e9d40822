from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.supervision.pace import Pace
from wire.events import ArtifactMade, AttemptStarted, Envelope, Progress, Scalars

BEGAN = datetime(2026, 1, 2, tzinfo=UTC)
LEAST_S = 120.0


class Told:
    """A job that says things at the times of a clock which a test sets."""

    def __init__(self, **options):
        self.now_s = 0.0
        self.seq = 0
        self.pace = Pace(least_s=LEAST_S, clock=lambda: self.now_s, **options)

    def say(self, event, *, after_s=0.0):
        self.wait(after_s)
        self.seq += 1
        self.pace.saw([Envelope(seq=self.seq, at=BEGAN + timedelta(seconds=self.now_s), event=event)])

    def wait(self, seconds):
        """With a watcher that looks every second, as a supervisor does; gives what it found last."""
        until_s = self.now_s + seconds
        found = None
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 1.0)
            found = self.pace.silence()
        return found

    def steps(self, first, last, *, every_s, total=1000):
        for step in range(first, last + 1):
            self.say(Progress(stage="train", done=step, total=total), after_s=every_s)

    def machine(self, step):
        self.say(Scalars(step=step, values={"cpu/util_pct": 3.0, "ram/used_gib": 2.0, "gpu0/util_pct": 0.0}))


@pytest.fixture
def told():
    told = Told(steps_per_epoch=100)
    told.say(AttemptStarted(n=1, steps_per_epoch=100, total_steps=1000))
    return told


def test_quick_steps_are_given_two_minutes(told):
    told.steps(1, 10, every_s=0.3)
    assert told.wait(LEAST_S - 1) is None
    silence = told.wait(3)
    assert (silence.stage, silence.done) == ("train", 10)
    assert str(silence) == "no step for 122 s after 10 in the stage “train”, where it took 0.3 s before"


def test_slow_steps_are_given_three_times_as_long_as_they_take(told):
    told.steps(1, 10, every_s=90)
    assert told.wait(265) is None
    assert told.wait(10) is not None


def test_a_look_at_the_machine_is_no_step(told):
    told.steps(1, 10, every_s=0.3)
    for _ in range(70):
        told.wait(2)
        told.machine(10)
    assert told.wait(1) is not None


def test_what_is_no_look_at_the_machine_is_a_sign_of_life(told):
    told.steps(1, 10, every_s=0.3)
    told.say(Scalars(step=10, values={"train/loss": 1.0}), after_s=100)
    assert told.wait(100) is None
    artifact = ArtifactMade(artifact="checkpoint", name="step-10", path="x", sha256="0", bytes=1)
    told.say(artifact, after_s=10)
    assert told.wait(100) is None


def test_a_long_first_validation_does_not_trip_it_and_a_later_one_is_known(told):
    told.steps(1, 97, every_s=0.3)
    # Not every step is told; where the training stands is, with the state of the machine.
    told.machine(100)
    assert told.wait(900) is None
    told.say(Scalars(step=100, values={"val/loss": 1.0}))
    told.steps(101, 197, every_s=0.3)
    told.machine(200)
    # As long as the first one took is fine, and three times as long is the limit.
    assert told.wait(2600) is None
    assert told.wait(200) is not None


def test_a_short_validation_that_hangs_the_second_time_is_found_soon(told):
    told.steps(1, 100, every_s=0.3)
    told.say(Scalars(step=100, values={"val/loss": 1.0}), after_s=5)
    told.steps(101, 200, every_s=0.3)
    assert told.wait(LEAST_S - 1) is None
    assert told.wait(3) is not None


def test_the_first_validation_may_take_three_times_as_long_as_its_epoch(told):
    told.steps(1, 100, every_s=30)
    assert told.wait(3 * 99 * 30) is None
    assert told.wait(100) is not None


def test_a_validation_of_any_length_that_gives_signs_of_life_is_none(told):
    """Also the one that a run begins with when it was stopped before it."""
    told.say(AttemptStarted(n=2, from_step=100, steps_per_epoch=100, total_steps=1000))
    told.say(Progress(stage="prepare", done=9, total=9))
    for _ in range(60):
        told.say(Progress(stage="train", done=100, total=1000))
        assert told.wait(60) is None
    assert told.wait(10 * LEAST_S) is not None


def test_between_two_stages_it_is_patient(told):
    for done in range(10):
        told.say(Progress(stage="prepare", done=done + 1, total=10), after_s=0.3)
    assert told.wait(10 * LEAST_S - 1) is None
    assert told.wait(3) is not None


def test_before_the_first_word_it_is_patient_or_does_not_judge():
    told = Told()
    assert told.wait(10 * LEAST_S - 1) is None
    assert told.wait(3) is not None
    export = Told(judges_beginnings=False)
    assert export.wait(100 * LEAST_S) is None


def test_a_watcher_that_was_held_up_blames_nobody(told):
    told.steps(1, 10, every_s=0.3)
    told.wait(60)
    told.now_s += 3600
    assert told.pace.silence() is None
    assert told.wait(50) is None
    assert told.wait(15) is not None


def test_a_clock_that_is_set_back_gives_no_negative_pace(told):
    told.steps(1, 5, every_s=1)
    told.seq += 1
    told.pace.saw(
        [Envelope(seq=told.seq, at=BEGAN - timedelta(hours=2), event=Progress(stage="train", done=6, total=1000))]
    )
    told.steps(7, 12, every_s=1)
    assert told.wait(LEAST_S - 1) is None
    assert told.wait(3) is not None
