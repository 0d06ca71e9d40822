"""A mark on disk that nothing may start: the server is being stopped, or was.

It names the process that stops the server. While that process lives the mark stands, whatever restarts meanwhile; and
it outlives a stop in order, for what ends later must start nothing where no server is. A server that runs although its
stopper is gone was not stopped after all, or was started again: then the mark is only left over.
"""

from __future__ import annotations

from pathlib import Path

from jobs.process import ProcessIdentity, alive, identify_self
from jobs.storage import storage


def is_suspended() -> bool:
    return _mark().exists()


def suspend() -> None:
    me = identify_self()
    if _stopper() == me:
        return
    mark = _mark()
    mark.parent.mkdir(parents=True, exist_ok=True)
    beside = mark.with_suffix(".tmp")
    beside.write_text(f"{me.boot_id} {me.pid} {me.started}")
    beside.replace(mark)


def lift() -> None:
    _mark().unlink(missing_ok=True)


def lift_if_left_over() -> None:
    """For a server that runs: take away the mark of a stopper that is gone."""
    stopper = _stopper()
    if stopper is None or not alive(stopper):
        lift()


def _stopper() -> ProcessIdentity | None:
    """Who made the mark; None where there is none, or nobody can be read from it."""
    try:
        boot_id, pid, started = _mark().read_text().split()
        return ProcessIdentity(boot_id, int(pid), int(started))
    except (FileNotFoundError, ValueError):
        return None


def _mark() -> Path:
    return storage().run_dir / "suspended"
