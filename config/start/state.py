"""What the running start says about itself to the next start and to tools beside it: ``DATA_DIR/run/state.json``."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.process import ProcessIdentity, alive, signal_group


@dataclass(frozen=True, slots=True)
class StartState:
    address: str
    supervisord: ProcessIdentity
    programs: dict[str, ProcessIdentity]

    def write(self, path: Path) -> None:
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(asdict(self), indent=2))
        beside.replace(path)


def read_state(path: Path) -> StartState | None:
    """None where nothing was started, or where the file is damaged."""
    try:
        found = json.loads(path.read_text())
        return StartState(
            address=found["address"],
            supervisord=ProcessIdentity(**found["supervisord"]),
            programs={name: ProcessIdentity(**process) for name, process in found["programs"].items()},
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def stop_left_behind(state: StartState, *, patience_s: float = 30) -> bool:
    """Stop what an interrupted start left running: supervisord, which stops its programs; then what it lost.

    Returns:
        Whether there was anything.
    """
    found = [process for process in (state.supervisord, *state.programs.values()) if alive(process)]
    for process in found:
        _stop(process, patience_s)
    return bool(found)


def _stop(process: ProcessIdentity, patience_s: float) -> None:
    """SIGTERM to the group it leads, as each of them does; SIGKILL once the patience is over."""
    signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while alive(process):
        if time.monotonic() > deadline:
            signal_group(process, signal.SIGKILL)
        time.sleep(0.05)
