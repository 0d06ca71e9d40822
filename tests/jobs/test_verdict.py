from __future__ import annotations

import itertools

import pytest

from jobs.states import ALLOWED, LIVE, Status
from jobs.supervision.engine import Exit
from jobs.supervision.verdict import Found, decide
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


@pytest.mark.parametrize(
    ("status", "goes_on", "path", "waits_for"),
    [
        (S.RUNNING, True, (S.PAUSED,), "disk"),
        (S.STARTING, True, (S.PAUSED,), "disk"),
        (S.RUNNING, False, (S.ERRORED,), None),
        (S.PAUSING, True, (S.PAUSED,), None),
        (S.CANCELLING, True, (S.CANCELLED,), None),
        (S.CANCELLING, False, (S.CANCELLED,), None),
    ],
)
@pytest.mark.parametrize("written", [True, False])
def test_a_full_disk_ends_nothing_that_can_go_on(status, goes_on, path, waits_for, written):
    report = ExitReport(outcome="errored", code="disk.full", message="m", hint="h") if written else None
    verdict = decide(status, report, Exit(code=74), goes_on=goes_on)
    assert (verdict.path, verdict.waits_for) == (path, waits_for)


def test_every_verdict_is_a_way_that_the_table_has():
    outcomes = ["succeeded", "failed", "errored", "cancelled", "paused", None]
    codes = ["x", "disk.full"]
    for status, outcome, n_fruitless, code in itertools.product(sorted(LIVE), outcomes, range(7), codes):
        report = None if outcome is None else ExitReport(outcome=outcome, code=code, message="m")
        verdict = decide(status, report, KILLED, n_fruitless=n_fruitless, goes_on=True)
        for before, after in itertools.pairwise((status, *verdict.path)):
            assert after in ALLOWED[before], (status, outcome, verdict)
        assert (verdict.failure is not None) == (verdict.after in {S.FAILED, S.ERRORED})


def test_the_fifth_fruitless_attempt_is_the_last_and_shows_the_log():
    assert decide(S.RUNNING, None, KILLED, n_fruitless=3).after is S.QUEUED
    verdict = decide(S.RUNNING, None, KILLED, n_fruitless=4, log_tail="Bus error")
    assert verdict.path == (S.LOST, S.ERRORED)
    assert verdict.failure.code == "attempts.exhausted"
    assert verdict.failure.message.endswith("its process was killed by SIGKILL.\nBus error")


HUNG = Found(hung="no step for 125 s after 8 in the stage “train”")


def test_one_that_hung_is_tried_again_and_given_up_as_hung():
    verdict = decide(S.RUNNING, None, KILLED, found=HUNG)
    assert (verdict.path, verdict.reason) == ((S.LOST, S.QUEUED), f"lost: it hung: {HUNG.hung}")
    # It woke up when it was asked to stop.
    report = ExitReport(outcome="paused")
    assert decide(S.RUNNING, report, Exit(code=75), found=HUNG).reason == f"lost: it hung: {HUNG.hung}"
    verdict = decide(S.RUNNING, None, KILLED, found=HUNG, n_fruitless=4, log_tail="the end")
    assert (verdict.after, verdict.failure.code) == (S.ERRORED, "process.hung")
    assert decide(S.RUNNING, ExitReport(outcome="succeeded"), Exit(code=0), found=HUNG).after is S.SUCCEEDED
    assert decide(S.CANCELLING, None, KILLED, found=HUNG).after is S.CANCELLED


def test_want_of_memory_fails_it_at_once_unless_it_was_to_stop_anyway():
    found = Found(no_memory="the system ended it")
    verdict = decide(S.RUNNING, None, KILLED, found=found)
    assert (verdict.path, verdict.failure.code) == ((S.FAILED,), "host.out_of_memory")
    assert decide(S.STARTING, None, KILLED, found=found).after is S.FAILED
    assert decide(S.CANCELLING, None, KILLED, found=found).after is S.CANCELLED
    assert decide(S.PAUSING, None, KILLED, found=found).after is S.PAUSED


def test_a_lost_device_is_left_whatever_the_process_met_there():
    found = Found(lost_devices=("GPU 0 (H100)",))
    for report in (None, ExitReport(outcome="errored", code="unexpected", message="CUDA error")):
        verdict = decide(S.RUNNING, report, KILLED, found=found, n_fruitless=9)
        assert verdict.path == (S.LOST, S.QUEUED)
        assert verdict.reason.startswith("device lost: GPU 0 (H100)")
    assert decide(S.RUNNING, ExitReport(outcome="succeeded"), KILLED, found=found).after is S.SUCCEEDED
    assert decide(S.PAUSING, None, KILLED, found=found).after is S.PAUSED


def test_a_device_that_only_the_process_found_lost_is_tried_again_and_counts():
    report = ExitReport(outcome="errored", code="device.lost", message="CUDA error: unknown error.")
    verdict = decide(S.RUNNING, report, Exit(code=70))
    assert (verdict.path, verdict.reason) == ((S.LOST, S.QUEUED), "lost: its device failed: CUDA error: unknown error")
    assert decide(S.RUNNING, report, Exit(code=70), n_fruitless=4).failure.code == "device.lost"


@pytest.mark.parametrize(
    ("how", "said"),
    [(Exit(code=3), "ended with status 3"), (KILLED, "was killed by SIGKILL"), (Exit(), "ended unseen")],
)
def test_how_a_process_ended_in_words(how, said):
    assert str(how) == said
