"""The end of a trainer whose lease is not renewed, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from django.conf import settings

from engine.lease import Lease, LeaseOver
from tests.surroundings import until
from wire.beat import LEASED, Deadlines, boot_clock_s, read_deadlines, write_deadlines
from wire.layout import AttemptDir

TRAINER = """
import sys, time
from pathlib import Path
from engine.lease import Lease
from engine.stop import Stop
from wire.layout import AttemptDir
attempt = AttemptDir(Path(sys.argv[1]))
stop = Stop(attempt)
Lease.of(attempt).watch(stop)
print("works", flush=True)
{work}
"""
STEPS = """
while not stop.asked:
    time.sleep(0.01)
    (attempt.path / "steps").open("a").write("x")
print(stop.wish, stop.unattended, flush=True)
"""
ONE_LONG_STEP_THAT_HOLDS_THE_INTERPRETER = "sum(range(10**12))"
DEAF = "while True: time.sleep(1)"


@pytest.fixture
def attempt(tmp_path):
    return AttemptDir(tmp_path)


@pytest.fixture
def trainer(attempt):
    started = []

    def start(work, *, save_in_s, end_in_s):
        now_s = boot_clock_s()
        write_deadlines(attempt.beat_path, Deadlines(now_s + save_in_s, now_s + end_in_s))
        process = subprocess.Popen(
            [sys.executable, "-c", TRAINER.format(work=work), str(attempt.path)],
            cwd=settings.BASE_DIR,
            env={**os.environ, LEASED: "1"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.readline() == "works\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_is_asked_to_save_first(trainer):
    process = trainer(STEPS, save_in_s=3, end_in_s=60)
    assert process.stdout.read() == "pause True\n"
    assert process.wait() == 0


@pytest.mark.parametrize(
    ("work", "killed_by"),
    [(ONE_LONG_STEP_THAT_HOLDS_THE_INTERPRETER, {signal.SIGALRM}), (DEAF, {signal.SIGALRM, signal.SIGKILL})],
)
def test_what_does_not_stop_is_killed(trainer, work, killed_by):
    process = trainer(work, save_in_s=2, end_in_s=3)
    assert -process.wait() in killed_by


def test_one_that_was_frozen_makes_no_step_when_it_goes_on(trainer, attempt):
    process = trainer(STEPS, save_in_s=4, end_in_s=4)
    steps = attempt.path / "steps"
    until(steps.exists)
    process.send_signal(signal.SIGSTOP)
    end_at_s = read_deadlines(attempt.beat_path).end_at_s
    before = steps.stat().st_size
    until(lambda: boot_clock_s() > end_at_s + 0.1)
    process.send_signal(signal.SIGCONT)
    assert process.wait() == -signal.SIGALRM
    assert steps.stat().st_size <= before + 1


def test_a_renewal_keeps_it_alive(trainer, attempt):
    process = trainer(DEAF, save_in_s=2, end_in_s=3)
    first = read_deadlines(attempt.beat_path)
    while boot_clock_s() < first.end_at_s + 1:
        write_deadlines(attempt.beat_path, Deadlines(boot_clock_s() + 30, boot_clock_s() + 60))
        time.sleep(0.1)
    assert process.poll() is None


@pytest.mark.parametrize("text", [None, "", "half", "000000000001.000 000000000002.000 00000000"])
def test_without_a_deadline_nothing_begins(attempt, monkeypatch, text):
    monkeypatch.setenv(LEASED, "1")
    if text is not None:
        attempt.beat_path.write_text(text)
    with pytest.raises(LeaseOver):
        Lease.of(attempt)


def test_after_its_end_nothing_begins(attempt, monkeypatch):
    monkeypatch.setenv(LEASED, "1")
    write_deadlines(attempt.beat_path, Deadlines(boot_clock_s() - 2, boot_clock_s() - 1))
    with pytest.raises(LeaseOver):
        Lease.of(attempt)


def test_where_nobody_leases_there_is_no_lease(attempt, monkeypatch):
    monkeypatch.delenv(LEASED, raising=False)
    assert Lease.of(attempt) is None
    monkeypatch.setenv(LEASED, "")
    assert Lease.of(attempt) is None


def test_deadlines_are_read_as_they_were_written(attempt):
    for deadlines in (Deadlines(1.5, 2.25), Deadlines(123456.789, 9999999.0)):
        write_deadlines(attempt.beat_path, deadlines)
        assert read_deadlines(attempt.beat_path) == deadlines


def test_the_engine_touches_nothing_without_its_lease(tmp_path):
    (tmp_path / "spec.json").write_text("{}")
    command = [sys.executable, "-m", "engine", "import", "--dir", str(tmp_path), "--attempt", "3"]
    ended = subprocess.run(
        command, cwd=settings.BASE_DIR, env={**os.environ, LEASED: "1"}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 75
    assert "may not work any more" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]
