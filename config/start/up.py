"""The foreground start: prepare, run the services, and on Ctrl-C stop them in order with every training saved."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from django.conf import settings
from django.db import DatabaseError, connections

from config.env import BASE_DIR, Environment
from config.hosts import is_loopback, local_address
from config.start.places import Places
from config.start.preflight import StartError, check_folders, check_port
from config.start.prepare import first_line, prepare
from config.start.programs import log_path, programs, supervisor_conf
from config.start.redis import find_redis_server, redis_conf
from config.start.state import StartState, read_state, stop_left_behind
from config.start.supervisor import ProgramStatus, Supervisor
from config.start.watch import Watch, last_lines
from dashboard.accounts import setup_code, setup_needed
from jobs import services, stream
from jobs.process import identify

SAVE_PATIENCE_S = 75
"""A step, a checkpoint and some air; the supervisor of a run kills it after 60 s."""
STOP_PATIENCE_S = 60
ANSWER_PATIENCE_S = 60
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class AlreadyRunningError(Exception):
    """Another ``up`` holds this ``DATA_DIR``. The message is its address."""


class Up:
    """One foreground start, from preflight to the last stopped service."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._places = Places(environment.data_dir)
        self._address = local_address(environment.host, environment.port, environment.url_prefix)
        self._n_signals = 0

    def run(self) -> None:
        """Run until a signal asks to stop.

        Raises:
            StartError: The start cannot begin, or supervisord died.
            AlreadyRunningError: Fovea runs in this ``DATA_DIR``.
        """
        # The database holds everybody's session: nobody else on this machine reads what the server and its jobs write.
        os.umask(0o077)
        check_folders(self._places, self._env.cache_dir)
        with self._alone():
            self._clear_stale()
            check_port(self._env.host, self._env.port)
            for number in STOP_SIGNALS:
                signal.signal(number, self._on_signal)
            prepare(self._places, say)
            if self._n_signals:
                return
            supervisor = self._start_services()
            try:
                self._serve(supervisor)
            finally:
                say("Stopping the services ...")
                supervisor.stop(patience_s=STOP_PATIENCE_S)
                self._places.state_path.unlink(missing_ok=True)
                say("Stopped.")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._n_signals += 1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._places.lock_path.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                state = read_state(self._places.state_path)
                raise AlreadyRunningError(state.address if state else "") from None
            yield

    def _clear_stale(self) -> None:
        if (state := read_state(self._places.state_path)) and stop_left_behind(state):
            say("Stopped the services that an interrupted start had left running.")
        self._places.state_path.unlink(missing_ok=True)

    def _start_services(self) -> Supervisor:
        redis_server = None
        if not self._env.redis_url:
            try:
                redis_server = find_redis_server()
            except FileNotFoundError as problem:
                raise StartError(f"{problem}. Install redis-server, or set REDIS_URL to one elsewhere.") from None
            _write_private(self._places.redis_conf_path, redis_conf(self._places))
        services_to_run = programs(
            places=self._places, host=self._env.host, port=self._env.port, redis_server=redis_server
        )
        conf = supervisor_conf(services_to_run, places=self._places, project_dir=BASE_DIR)
        _write_private(self._places.supervisor_conf_path, conf)
        return Supervisor(self._places, self._service_environment(), BASE_DIR)

    def _service_environment(self) -> dict[str, str]:
        return {
            "DATA_DIR": str(self._env.data_dir),
            "CACHE_DIR": str(self._env.cache_dir),
            "CACHE_MAX_GIB": str(self._env.cache_max_gib),
            "HOST": self._env.host,
            "PORT": str(self._env.port),
            "REDIS_URL": settings.REDIS_URL,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONUNBUFFERED": "1",
        }

    def _serve(self, supervisor: Supervisor) -> None:
        self._write_state(supervisor, [])
        self._wait_for_answer(supervisor)
        if not self._n_signals:
            services.trainings_wake()
            self._print_banner()
        watch = Watch()
        while not self._n_signals:
            self._look_after(supervisor, watch)
            time.sleep(0.5)
        self._save_trainings()

    def _look_after(self, supervisor: Supervisor, watch: Watch) -> None:
        self._require_running(supervisor)
        statuses = supervisor.statuses()
        self._write_state(supervisor, statuses)
        for name in watch.dying(statuses, time.monotonic()):
            self._report(name)

    def _require_running(self, supervisor: Supervisor) -> None:
        if not supervisor.is_running():
            lines = last_lines(self._places.supervisor_output_path)
            raise StartError("\n  ".join(("supervisord ended. Its last lines:", *lines)))

    def _report(self, program: str) -> None:
        path = log_path(self._places, program)
        say(f"The service {program} keeps dying; it is restarted each time. The end of {path}:")
        for line in last_lines(path):
            say(f"  {line}")

    def _write_state(self, supervisor: Supervisor, statuses: list[ProgramStatus]) -> None:
        if supervisor.identity is None:
            return
        found = {status.name: identify(status.pid) for status in statuses if status.pid}
        processes = {name: identity for name, identity in found.items() if identity}
        StartState(self._address, supervisor.identity, processes).write(self._places.state_path)

    def _wait_for_answer(self, supervisor: Supervisor) -> None:
        deadline = time.monotonic() + ANSWER_PATIENCE_S
        while not self._n_signals and not _answers(f"{self._address}healthz"):
            self._require_running(supervisor)
            if time.monotonic() > deadline:
                lines = last_lines(log_path(self._places, "web"))
                raise StartError("\n  ".join(("the web server does not answer. Its last lines:", *lines)))
            time.sleep(0.1)

    def _print_banner(self) -> None:
        say()
        say(f"  Fovea runs at  {self._address}")
        if not is_loopback(self._env.host):
            say(f"                 and for others at port {self._env.port} of this machine")
        if setup_needed():
            say(f"  Set-up code    {setup_code()}")
        say(f"  Data           {self._env.data_dir}")
        say(f"  Logs           {self._places.logs_dir}")
        if not stream.reachable():
            say("  Redis does not answer: pages look for news every 2 s until it does. See REDIS_URL.")
        say("  Ctrl-C stops it; trainings are saved and go on at the next start.")
        say()

    def _save_trainings(self) -> None:
        """Ask every training to save and end; a second signal ends the waiting, not the saving."""
        # Idle for days perhaps: a database server may have closed it.
        connections.close_all()
        try:
            self._suspend()
        except DatabaseError as problem:
            say(f"The database cannot be used ({first_line(problem)}): what runs goes on without the server.")

    def _suspend(self) -> None:
        n_running = services.trainings_suspend()
        if not n_running:
            return
        say(f"Saving {n_running} running training{'s' if n_running > 1 else ''} ... (Ctrl-C again: do not wait)")
        deadline = time.monotonic() + SAVE_PATIENCE_S
        while n_running and time.monotonic() < deadline and self._n_signals < 2:
            time.sleep(0.25)
            n_running = services.trainings_suspend()
        if n_running:
            say(f"{n_running} still running; what they do is taken over at the next start.")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310  always http, to ourselves
            return True
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return True  # it answers: ALLOWED_HOSTS may leave this machine's own names out
    except OSError:
        return False


def _write_private(path: os.PathLike[str], text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def say(line: str = "") -> None:
    try:
        print(line, flush=True)  # noqa: T201  the console is its purpose
    except OSError:
        # The terminal is gone; the stopping goes on.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
