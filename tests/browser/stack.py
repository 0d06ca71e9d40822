"""The whole product as a person starts it: ``manage.py up`` on a free port with a folder of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

PROJECT_DIR = Path(__file__).resolve().parents[2]
START_PATIENCE_S = 180


def wait_for(what: str, found: Callable[[], Any], *, patience_s: float = 120, every_s: float = 0.2) -> Any:
    """The first true answer of ``found``; fails with ``what`` when patience ends."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        time.sleep(every_s)
    raise AssertionError(f"not within {patience_s:g} s: {what}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Stack:
    """A running Fovea. ``settings`` go into its environment."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self._settings = settings
        self._log_path = data_dir / "up.txt"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def console(self) -> str:
        return self._log_path.read_text()

    @property
    def setup_code(self) -> str:
        found = re.search(r"Set-up code\s+(\S+)", self.console)
        assert found, self.console
        return found.group(1)

    def start(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "up"],
                cwd=PROJECT_DIR,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for("Fovea's address on the console", self._answered, patience_s=START_PATIENCE_S)

    def stop(self) -> None:
        """What Ctrl-C does."""
        if not self._process:
            return
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(timeout=150) == 0, self.console
        self._process = None

    @property
    def environment(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if name not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}
        }
        own = {"DATA_DIR": str(self.data_dir), "PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        return {**inherited, **own, **self._settings}

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT_DIR,
            env=self.environment,
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout

    def pid_of(self, program: str) -> int:
        state = json.loads((self.data_dir / "run" / "state.json").read_text())
        pid: int = state["programs"][program]["pid"]
        return pid

    def kill_program(self, program: str) -> None:
        """``kill -9`` of a service's main process; returns once another one has taken its place."""
        before = self.pid_of(program)
        os.kill(before, signal.SIGKILL)
        wait_for(f"a new {program}", lambda: self._pid_now(program) not in {None, before})

    def flush_redis(self) -> None:
        secret = (self.data_dir / "run" / "redis.secret").read_text()
        path = re.search(r'unixsocket "(.+)"', (self.data_dir / "run" / "redis.conf").read_text())
        assert path
        with redis.Redis(unix_socket_path=path.group(1), password=secret) as client:
            assert client.flushall()

    def trainer_pid(self, job_id: int) -> int:
        """The engine's process that works on this job."""
        folder = str(self.data_dir / "jobs" / str(job_id))
        pids = subprocess.run(
            ["pgrep", "-f", rf"^\S*python\S* -m engine .*--dir {folder}( |$)"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        assert pids, f"no engine works in {folder}"
        return int(pids[0])

    def events(self, job_id: int) -> list[dict[str, Any]]:
        path = self.data_dir / "jobs" / str(job_id) / "events.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def _answered(self) -> bool:
        assert self._process
        assert self._process.poll() is None, self.console
        return "Fovea runs at" in self.console

    def _pid_now(self, program: str) -> int | None:
        try:
            return self.pid_of(program)
        except (FileNotFoundError, KeyError, json.JSONDecodeError):
            return None


def truth(events: list[dict[str, Any]], series: str) -> list[tuple[int, float | None]]:
    """(step, value) of one series as ``events.jsonl`` has it: a new attempt supersedes what lies past its start."""
    points: list[tuple[int, float | None]] = []
    for envelope in events:
        event = envelope["event"]
        if event["kind"] == "attempt.started":
            points = [point for point in points if point[0] <= event["from_step"]]
        elif event["kind"] == "scalars" and series in event["values"]:
            points.append((event["step"], event["values"][series]))
    return points
