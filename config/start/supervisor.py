"""supervisord as a child of ``up``: in a session of its own, so that a terminal's Ctrl-C reaches ``up`` alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Error as XmlRpcError
from xmlrpc.client import ServerProxy

from config.start.places import Places
from jobs.process import identify


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    name: str
    pid: int
    """0 while it does not run."""
    started_at: int
    """Epoch seconds of the last start, 0 before the first."""


class Supervisor:
    def __init__(self, places: Places, environment: Mapping[str, str], project_dir: Path) -> None:
        self._places = places
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(places.supervisor_conf_path)]
        with places.supervisor_output_path.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=project_dir,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.identity = identify(self._process.pid)
        """None where it ended at once."""

    def is_running(self) -> bool:
        return self._process.poll() is None

    def statuses(self) -> list[ProgramStatus]:
        """Every program as it is now; empty while supervisord does not answer."""
        from supervisor.xmlrpc import SupervisorTransport

        transport: Any = SupervisorTransport(None, None, serverurl=f"unix://{self._places.supervisor_socket_path}")
        try:
            with ServerProxy("http://127.0.0.1", transport=transport) as server:
                found: Any = server.supervisor.getAllProcessInfo()
        except (OSError, HTTPException, XmlRpcError):
            return []
        finally:
            transport.close()
        return [ProgramStatus(entry["name"], entry["pid"], entry["start"]) for entry in found]

    def stop(self, *, patience_s: float) -> None:
        """Stop every program, the last started first, then supervisord itself."""
        self._process.terminate()
        try:
            self._process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
