"""Three hosts that share a database and a folder, and what happens to them at random. For ``scripts/chaos.py``.

Each host is a process namespace with a host name of its own: it sees no other's processes, and dies as a whole.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import RedisServer
from tests.faults.cluster import Cluster
from tests.jobs.scripted_engine import LIVED

PROJECT_DIR = Path(__file__).resolve().parent.parent.parent
CHECKPOINT_EVERY = 10
LEASE_S = 5
SHORTEST_GAP_S, LONGEST_GAP_S = 1.5, 3.5
LONGER_THAN_LEASE_S = LEASE_S + 3
_AGENT = "while :; do {python} manage.py agent; sleep 1; done"
_WORKER = (
    "while :; do {python} -m celery -A config worker --concurrency 1 --without-gossip --without-mingle; sleep 1; done &"
)


class Simulated:
    """A host: its first process starts the agent again whenever it dies, as supervisord does."""

    def __init__(self, name: str, log_path: Path, *, with_worker: bool) -> None:
        self.name = name
        self._log_path = log_path
        self._with_worker = with_worker
        self.init: psutil.Process
        self.start()

    def start(self) -> None:
        services = [_WORKER] if self._with_worker else []
        script = "\n".join([f"hostname {self.name}", *services, _AGENT]).format(python=sys.executable)
        command = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]
        with self._log_path.open("ab") as log:
            self._outer = subprocess.Popen(command, cwd=PROJECT_DIR, stdout=log, stderr=log, start_new_session=True)
        while not (children := psutil.Process(self._outer.pid).children()):
            time.sleep(0.02)
        self.init = children[0]

    def die(self) -> None:
        """Every process of it at once."""
        _signalled(self.init)
        self._outer.wait()

    def processes(self) -> list[psutil.Process]:
        try:
            return self.init.children(recursive=True)
        except psutil.NoSuchProcess:
            return []


@dataclass(frozen=True)
class Trainer:
    process: psutil.Process
    attempt_id: int
    job_folder: Path
    n: int

    @property
    def has_saved(self) -> bool:
        """Killed before its first checkpoint again and again, a job is given up, as it should be."""
        lived = self.job_folder / "attempts" / str(self.n) / LIVED
        return lived.exists() and lived.read_text().count("\n") > CHECKPOINT_EVERY


class Nemesis:
    """Knows every fault, and how to undo it. What it did is in ``done``: seconds, kind, whom."""

    def __init__(self, rng: random.Random, hosts: list[Simulated], cluster: Cluster, redis: RedisServer) -> None:
        self._rng = rng
        self._hosts, self._cluster, self._redis = hosts, cluster, redis
        self._began = time.monotonic()
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self._busy: set[str] = set()
        self.done: list[tuple[float, str, str]] = []
        self.kinds: dict[str, Callable[[], str | None]] = {
            "trainer killed": self._kill_trainer,
            "supervisor killed": self._kill_supervisor,
            "trainer and supervisor killed": self._kill_both,
            "trainer stopped": self._stop_trainer,
            "supervisor stopped beyond its lease": self._stop_supervisor,
            "agent killed": self._kill_agent,
            "Celery worker killed": self._kill_worker,
            "host dead": self._kill_host,
            "database crashed": self._crash_database,
            "Redis killed": self._kill_redis,
            "Redis emptied": self._flush_redis,
        }

    def strike(self) -> None:
        """One fault that is possible now, of a kind that was rare so far."""
        n_done = Counter(kind for _, kind, _ in self.done)
        for kind in sorted(self.kinds, key=lambda kind: (n_done[kind], self._rng.random())):
            whom = self.kinds[kind]()
            if whom is not None:
                self.done.append((round(time.monotonic() - self._began, 1), kind, whom))
                return

    def mend(self, *, everything: bool = False) -> None:
        """Undo what is due."""
        due = [undo for undo in self._undo if everything or undo[0] <= time.monotonic()]
        self._undo = [undo for undo in self._undo if undo not in due]
        for _, action in due:
            action()

    def gap_s(self) -> float:
        return self._rng.uniform(SHORTEST_GAP_S, LONGEST_GAP_S)

    def is_quiet(self) -> bool:
        """Nobody works on a job."""
        return not self.trainers() and not self.supervisors()

    # Whom.

    def trainers(self) -> list[Trainer]:
        found = []
        for process, line in _with("--dir"):
            key = process.info["environ"].get("FOVEA_ATTEMPT", "").rpartition(":")[2]
            if key.isdecimal():
                folder, n = line[line.index("--dir") + 1], line[line.index("--attempt") + 1]
                found.append(Trainer(process, int(key), Path(folder), int(n)))
        return found

    def supervisors(self) -> dict[int, psutil.Process]:
        """By the attempt."""
        return {int(line[-1]): process for process, line in _with("supervise") if line[-1].isdecimal()}

    def _one(self) -> Trainer | None:
        """A trainer that has saved once."""
        able = [trainer for trainer in self.trainers() if trainer.has_saved]
        return self._rng.choice(able) if able else None

    # What.

    def _kill_trainer(self) -> str | None:
        return _signalled(trainer.process) if (trainer := self._one()) else None

    def _kill_supervisor(self) -> str | None:
        trainer = self._one()
        supervisor = self.supervisors().get(trainer.attempt_id) if trainer else None
        return _signalled(supervisor) if supervisor else None

    def _kill_both(self) -> str | None:
        trainer = self._one()
        supervisor = self.supervisors().get(trainer.attempt_id) if trainer else None
        if trainer is None or supervisor is None:
            return None
        return f"{_signalled(supervisor)}, {_signalled(trainer.process)}"

    def _stop_trainer(self) -> str | None:
        return self._stopped(trainer.process, self._rng.uniform(1, 4)) if (trainer := self._one()) else None

    def _stop_supervisor(self) -> str | None:
        trainer = self._one()
        supervisor = self.supervisors().get(trainer.attempt_id) if trainer else None
        return self._stopped(supervisor, LONGER_THAN_LEASE_S) if supervisor else None

    def _kill_agent(self) -> str | None:
        agents = [process for process, _ in _with("agent")]
        return _signalled(self._rng.choice(agents)) if agents else None

    def _kill_worker(self) -> str | None:
        workers = [process for process, _ in _with("worker")]
        return ", ".join(map(_signalled, workers)) or None

    def _kill_host(self) -> str | None:
        host = self._rng.choice(self._hosts)
        mine = {process.pid for process in host.processes()}
        theirs = [trainer for trainer in self.trainers() if trainer.process.pid in mine]
        if host.name in self._busy or not all(trainer.has_saved for trainer in theirs):
            return None
        host.die()
        self._later(self._rng.uniform(2, 12), host.name, host.start)
        return host.name

    def _crash_database(self) -> str | None:
        if "database" in self._busy:
            return None
        self._cluster.crash()
        self._later(self._rng.uniform(0.5, 4), "database", self._cluster.start)
        return "PostgreSQL"

    def _kill_redis(self) -> str | None:
        if "Redis" in self._busy:
            return None
        self._redis.kill()
        self._later(self._rng.uniform(0.5, 4), "Redis", self._redis.start)
        return "Redis"

    def _flush_redis(self) -> str | None:
        from jobs import stream

        if "Redis" in self._busy:
            return None
        stream.client().flushall()
        return "Redis"

    def _stopped(self, process: psutil.Process, seconds: float) -> str:
        whom = _signalled(process, signal.SIGSTOP)
        self._later(seconds, whom, lambda: _signalled(process, signal.SIGCONT) and None)
        return f"{whom} for {seconds:.1f} s"

    def _later(self, seconds: float, busy: str, action: Callable[[], object]) -> None:
        def undo() -> None:
            action()
            self._busy.discard(busy)

        self._busy.add(busy)
        self._undo.append((time.monotonic() + seconds, undo))


def _signalled(process: psutil.Process, number: signal.Signals = signal.SIGKILL) -> str:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return f"{process.pid} (gone)"
    return str(process.pid)


def _with(word: str) -> Iterable[tuple[psutil.Process, list[str]]]:
    """Python processes of this installation that were started with the word."""
    root = os.environ["FOVEA_TEST_ROOT"]
    for process in psutil.process_iter(["cmdline", "environ", "name"]):
        line = process.info["cmdline"] or []
        is_ours = (process.info["environ"] or {}).get("FOVEA_TEST_ROOT") == root
        if is_ours and word in line and line[0] == sys.executable:
            yield process, line
