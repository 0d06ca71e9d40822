from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobs.supervision.engine import Exit
from jobs.supervision.oom import PREFERENCE, MemoryWatch, Places, go_first

PID = 4242
KILLED = Exit(signal=9)


class Machine:
    """A /proc and a /sys/fs/cgroup of a test's own."""

    def __init__(self, root: Path, *, version: int, inner: str = "docker/abc") -> None:
        self.places = Places(proc=root / "proc", cgroup=root / "cgroup")
        self.process = root / "proc" / str(PID)
        self.process.mkdir(parents=True)
        self.process.joinpath("status").write_text("Name:\tpython\nVmRSS:\t  3145728 kB\n")
        if version == 2:
            self.group = root / "cgroup" / inner
            self.counter, limit = self.group / "memory.events", "memory.max"
            self.process.joinpath("cgroup").write_text(f"0::/{inner}\n")
        else:
            self.group = root / "cgroup" / "memory" / inner
            self.counter, limit = self.group / "memory.oom_control", "memory.limit_in_bytes"
            self.process.joinpath("cgroup").write_text(f"9:cpu:/\n4:memory:/{inner}\n0::/\n")
        self.group.mkdir(parents=True)
        self.group.joinpath(limit).write_text("4000000000\n")
        self.count(here=0, anywhere=7)
        self.now_s = 0.0
        self.watch = MemoryWatch(PID, places=self.places, clock=lambda: self.now_s)

    def count(self, *, here: int, anywhere: int) -> None:
        self.counter.write_text(f"oom_kill_disable 0\nunder_oom 0\nlow 0\noom 3\noom_kill {here}\n")
        self.places.proc.joinpath("vmstat").write_text(f"nr_free_pages 1\noom_kill {anywhere}\n")

    def end(self) -> None:
        for file in self.process.iterdir():
            file.unlink()
        self.process.rmdir()


@pytest.fixture(params=[1, 2])
def machine(request, tmp_path):
    return Machine(tmp_path, version=request.param)


def test_the_counter_of_its_own_group_tells_for_certain(machine):
    machine.watch.look()
    machine.end()
    machine.count(here=1, anywhere=8)
    assert machine.watch.found(KILLED, killed_by_us=False) == (
        "the system ended it; when last looked at it had taken 3.2 GB of the 4 GB that it may have"
    )


def test_it_tells_of_an_engine_that_another_supervisor_had_started_too(machine):
    machine.end()
    machine.count(here=1, anywhere=8)
    assert machine.watch.found(Exit(), killed_by_us=False).startswith("the system ended it")


def test_another_process_of_the_machine_is_believed_only_where_it_was_killed_too(machine):
    machine.end()
    machine.count(here=0, anywhere=8)
    assert machine.watch.found(KILLED, killed_by_us=False).startswith("the system ended it")
    assert machine.watch.found(Exit(), killed_by_us=False) == ""


def test_no_counter_rose_then_it_was_a_stranger(machine):
    machine.end()
    assert machine.watch.found(KILLED, killed_by_us=False) == ""


@pytest.mark.parametrize("how", [Exit(code=1), Exit(signal=11), Exit(code=0)])
def test_one_that_ended_otherwise_was_not_killed_for_memory(machine, how):
    machine.count(here=1, anywhere=8)
    assert machine.watch.found(how, killed_by_us=False) == ""


def test_what_we_killed_ourselves_was_not_the_system(machine):
    machine.count(here=1, anywhere=8)
    assert machine.watch.found(KILLED, killed_by_us=True) == ""


def test_a_kill_of_an_hour_ago_was_another_process(machine):
    machine.count(here=1, anywhere=8)
    for _ in range(100):
        machine.now_s += 1
        machine.watch.look()
    machine.end()
    assert machine.watch.found(KILLED, killed_by_us=False) == ""


def test_a_machine_without_counters_says_nothing(tmp_path):
    watch = MemoryWatch(PID, places=Places(proc=tmp_path, cgroup=tmp_path))
    watch.look()
    assert watch.found(KILLED, killed_by_us=False) == ""


def test_an_engine_goes_before_everything_else():
    with subprocess.Popen(["sleep", "60"]) as child:
        go_first(child.pid)
        said = Path(f"/proc/{child.pid}/oom_score_adj").read_text()
        child.kill()
    assert int(said) >= PREFERENCE
    assert int(Path(f"/proc/{os.getpid()}/oom_score_adj").read_text()) < PREFERENCE
    go_first(child.pid)  # gone meanwhile: nothing to do, and nothing to say
