from __future__ import annotations

import itertools

import pytest

from jobs.states import ALLOWED, LIVE, Status
from jobs.supervision.engine import Exit
from jobs.supervision.verdict import decide
from wire.specs import ExitReport

KILLED = Exit(signal=9)
S = Status


@pytest.mark.parametrize(
    ("status", "outcome", "code", "path"),
    [
        (S.RUNNING, "succeeded", "", (S.SUCCEEDED,)),
        (S.CANCELLING, "succeeded", "", (S.SUCCEEDED,)),
        (S.PAUSING, "succeeded", "", (S.SUCCEEDED,)),
        (S.STARTING, "failed", "spec.invalid", (S.FAILED,)),
        (S.CANCELLING, "failed", "loss.not_finite", (S.FAILED,)),
        (S.RUNNING, "errored", "unexpected", (S.ERRORED,)),
        (S.RUNNING, "errored", "job.locked", (S.LOST, S.QUEUED)),
        (S.CANCELLING, "cancelled", "", (S.CANCELLED,)),
        (S.CANCELLING, "paused", "", (S.CANCELLED,)),
        (S.PAUSING, "paused", "", (S.PAUSED,)),
        (S.PAUSING, "cancelled", "", (S.PAUSED,)),
        (S.RUNNING, "cancelled", "", (S.LOST, S.QUEUED)),
        (S.RUNNING, "paused", "attempt.unattended", (S.LOST, S.QUEUED)),
        (S.RUNNING, None, "", (S.LOST, S.QUEUED)),
        (S.STARTING, None, "", (S.LOST, S.QUEUED)),
        (S.CANCELLING, None, "", (S.CANCELLED,)),
        (S.PAUSING, None, "", (S.PAUSED,)),
    ],
)
def test_the_end_of_a_process(status, outcome, code, path):
    report = None if outcome is None else ExitReport(outcome=outcome, code=code, message="m", hint="h")
    assert decide(status, report, KILLED).path == path


@pytest.mark.parametrize(
    ("status", "code", "path"),
    [
        (S.RUNNING, 64, (S.FAILED,)),
        (S.RUNNING, 70, (S.ERRORED,)),
        (S.CANCELLING, 70, (S.ERRORED,)),
        (S.CANCELLING, 75, (S.CANCELLED,)),
        (S.PAUSING, 75, (S.PAUSED,)),
        (S.RUNNING, 75, (S.LOST, S.QUEUED)),
        (S.RUNNING, 1, (S.LOST, S.QUEUED)),
    ],
)
def test_without_a_report_the_exit_status_counts(status, code, path):
    verdict = decide(status, None, Exit(code=code), log_tail="No space left on device")
    assert verdict.path == path
    if code in {64, 70}:
        assert verdict.failure.message == "The run could not write how it ended.\nNo space left on device"


def test_every_verdict_is_a_way_that_the_table_has():
    outcomes = ["succeeded", "failed", "errored", "cancelled", "paused", None]
    for status, outcome, n_fruitless in itertools.product(sorted(LIVE), outcomes, range(7)):
        report = None if outcome is None else ExitReport(outcome=outcome, code="x", message="m")
        verdict = decide(status, report, KILLED, n_fruitless=n_fruitless)
        for before, after in itertools.pairwise((status, *verdict.path)):
            assert after in ALLOWED[before], (status, outcome, verdict)
        assert (verdict.failure is not None) == (verdict.after in {S.FAILED, S.ERRORED})


def test_the_fifth_fruitless_attempt_is_the_last_and_shows_the_log():
    assert decide(S.RUNNING, None, KILLED, n_fruitless=3).after is S.QUEUED
    verdict = decide(S.RUNNING, None, KILLED, n_fruitless=4, log_tail="Bus error")
    assert verdict.path == (S.LOST, S.ERRORED)
    assert verdict.failure.code == "attempts.exhausted"
    assert verdict.failure.message.endswith("its process was killed by SIGKILL.\nBus error")


@pytest.mark.parametrize(
    ("how", "said"),
    [(Exit(code=3), "ended with status 3"), (KILLED, "was killed by SIGKILL"), (Exit(), "ended unseen")],
)
def test_how_a_process_ended_in_words(how, said):
    assert str(how) == said
