"""A host that only lends its devices, in the foreground: join, run the agent, and on Ctrl-C save what runs here."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from types import FrameType

from django.conf import settings
from django.db import DatabaseError, connections

from config.env import BASE_DIR
from config.start.joining import refusals
from config.start.places import HostPlaces
from config.start.preflight import StartError, check_folders
from config.start.prepare import first_line
from config.start.programs import agent_program, log_path, supervisor_conf
from config.start.state import StartState, read_state, stop_left_behind
from config.start.supervisor import Supervisor
from config.start.up import SAVE_PATIENCE_S, STOP_PATIENCE_S, STOP_SIGNALS, say
from config.start.watch import Watch, last_lines
from jobs import services, suspension
from jobs.host import host_name
from jobs.hosts import HostSign


def run_worker() -> list[str]:
    """Until a signal asks to stop. Gives why this host may not join, a line each."""
    worker = Worker(HostPlaces(settings.DATA_DIR, host_name()))
    try:
        return worker.run()
    except StartError as problem:
        return [str(problem)]


class Worker:
    def __init__(self, places: HostPlaces) -> None:
        self._places = places
        self._n_signals = 0

    def run(self) -> list[str]:
        """Gives why this host may not join.

        Raises:
            StartError: a folder cannot be written, or supervisord died.
        """
        os.umask(0o077)
        found = refusals()
        if found:
            return found
        check_folders(self._places, settings.CACHE_DIR)
        with self._places.lock_path.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return [f"it has joined already: {self._places.lock_path} is in use."]
            self._work()
        return []

    def _work(self) -> None:
        if (state := read_state(self._places.state_path)) and stop_left_behind(state):
            say("Stopped the agent that an interrupted start had left running.")
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        # Before anything is claimed here the others know of this host, and this host of them.
        HostSign().say()
        suspension.lift(only_here=True)
        supervisor = self._start_agent()
        try:
            say(f"{host_name()} works for the Fovea in {settings.DATA_DIR}. Logs: {self._places.logs_dir}")
            say("Ctrl-C stops it; what runs here is saved and goes on elsewhere, or when this host is back.")
            self._look_after(supervisor)
            self._save_trainings()
        finally:
            supervisor.stop(patience_s=STOP_PATIENCE_S)
            self._places.state_path.unlink(missing_ok=True)
            say("Stopped.")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._n_signals += 1

    def _start_agent(self) -> Supervisor:
        conf = supervisor_conf([agent_program()], places=self._places, project_dir=BASE_DIR)
        self._places.supervisor_conf_path.write_text(conf)
        return Supervisor(self._places, {"PYTHONUNBUFFERED": "1"}, BASE_DIR)

    def _look_after(self, supervisor: Supervisor) -> None:
        watch = Watch()
        while not self._n_signals:
            if not supervisor.is_running():
                lines = last_lines(self._places.supervisor_output_path)
                raise StartError("\n  ".join(("supervisord ended. Its last lines:", *lines)))
            statuses = supervisor.statuses()
            self._write_state(supervisor)
            for name in watch.dying(statuses, time.monotonic()):
                say("\n  ".join((f"{name} keeps dying. Its last lines:", *last_lines(log_path(self._places, name)))))
            time.sleep(0.5)

    def _write_state(self, supervisor: Supervisor) -> None:
        if supervisor.identity is not None:
            StartState(address="", supervisord=supervisor.identity, programs={}).write(self._places.state_path)

    def _save_trainings(self) -> None:
        """A second signal ends the waiting, not the saving."""
        connections.close_all()
        deadline = time.monotonic() + SAVE_PATIENCE_S
        try:
            n_running = services.trainings_suspend(only_here=True)
            if n_running:
                say(f"Saving {n_running} running here ... (Ctrl-C again: do not wait)")
            while n_running and time.monotonic() < deadline and self._n_signals < 2:
                time.sleep(0.25)
                n_running = services.trainings_suspend(only_here=True)
        except DatabaseError as problem:
            say(f"The database cannot be used ({first_line(problem)}): what runs here saves and ends by itself.")
