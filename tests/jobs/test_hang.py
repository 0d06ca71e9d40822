"""When a silent engine is taken for one that hangs; how it is ended is in ``tests/faults/test_doctor.py``."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from jobs.supervision import hang
from jobs.supervision.hang import LEAST_S, HangWatch
from jobs.supervision.pace import PATIENCE_BETWEEN
from wire.layout import JobDir

YEAR_S = 365 * 86_400


class Watched:
    """A silent engine, looked at every second of a clock that the test moves."""

    def __init__(self, folder, monkeypatch):
        self.now_s = 0.0
        self.sent = []
        self.engine = SimpleNamespace(identity=SimpleNamespace(pid=0), send=self.sent.append)
        job = JobDir(folder)
        self.watch = HangWatch(job, job.attempt(1), "train", clock=lambda: self.now_s)
        job.scratch_dir.mkdir()
        self.file = job.scratch_dir / "step-5.pt"
        monkeypatch.setattr(hang, "_catches", lambda *_: False)

    def wait(self, seconds, *, writes=lambda: None):
        for _ in range(int(seconds)):
            self.now_s += 1
            writes()
            self.watch.look(self.engine)


@pytest.fixture
def watched(tmp_path, monkeypatch):
    return Watched(tmp_path, monkeypatch)


@pytest.mark.parametrize("ahead_s", [0, YEAR_S, -YEAR_S])
def test_a_file_that_grows_is_a_sign_of_life_whatever_the_server_dates_it(watched, ahead_s):
    def writes():
        with watched.file.open("ab") as file:
            file.write(b"x")
        os.utime(watched.file, (YEAR_S * 50 + ahead_s,) * 2)

    watched.wait(PATIENCE_BETWEEN * LEAST_S + 300, writes=writes)
    assert not watched.sent
    watched.wait(LEAST_S + 2)
    assert watched.sent


def test_a_file_that_is_dated_in_the_future_and_stays_as_it_is_is_none(watched):
    watched.file.write_bytes(b"x")
    os.utime(watched.file, (YEAR_S * 99,) * 2)
    watched.wait(PATIENCE_BETWEEN * LEAST_S - 1)
    assert not watched.sent
    watched.wait(3)
    assert watched.sent
