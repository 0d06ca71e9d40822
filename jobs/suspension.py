"""A mark on disk that nothing may start: the server is being stopped, or was.

It names the process that stops the server. While that process lives the mark stands, whatever restarts meanwhile; and
it outlives a stop in order, for what ends later must start nothing where no server is. A server that runs although its
stopper is gone was not stopped after all, or was started again: then the mark is only left over. Whether a stopper
lives can be seen on its own host alone, so another host leaves its mark.

A host that only joined stops for itself: its mark has its name, and holds up nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jobs.host import host_name
from jobs.process import ProcessIdentity, alive, identify_self
from jobs.storage import storage


@dataclass(frozen=True, slots=True)
class _Stopper:
    process: ProcessIdentity
    host: str

    @property
    def may_live(self) -> bool:
        return self.host != host_name() or alive(self.process)


def is_suspended() -> bool:
    return _mark().exists() or _mark(only_here=True).exists()


def suspend(*, only_here: bool = False) -> None:
    me = _Stopper(identify_self(), host_name())
    mark = _mark(only_here=only_here)
    if _stopper(mark) == me:
        return
    mark.parent.mkdir(parents=True, exist_ok=True)
    beside = mark.with_suffix(".tmp")
    beside.write_text(f"{me.process.boot_id} {me.process.pid} {me.process.started} {me.host}")
    beside.replace(mark)


def lift(*, only_here: bool = False) -> None:
    _mark(only_here=only_here).unlink(missing_ok=True)


def lift_if_left_over() -> None:
    """For a server that runs: take away the mark of a stopper that is gone."""
    for only_here in (False, True):
        stopper = _stopper(_mark(only_here=only_here))
        if stopper is None or not stopper.may_live:
            lift(only_here=only_here)


def _stopper(mark: Path) -> _Stopper | None:
    """Who made the mark; None where there is none, or nobody can be read from it."""
    try:
        boot_id, pid, started, *host = mark.read_text().split()
        return _Stopper(ProcessIdentity(boot_id, int(pid), int(started)), host[0] if host else host_name())
    except (FileNotFoundError, ValueError):
        return None


def _mark(*, only_here: bool = False) -> Path:
    folder = storage().host_dir(host_name()) if only_here else storage().run_dir
    return folder / "suspended"
