"""Which process is meant: boot, pid and start time name one for ever, a pid alone does not."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_STATE, _START_TIME = 0, 19
"""Places in /proc/<pid>/stat after the command name (fields 3 and 22)."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    boot_id: str
    pid: int
    started: int
    """Clock ticks since boot."""


@cache
def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now; None where there is none, or only a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name stands in parentheses and may hold anything, even ")".
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[_STATE] in "ZX":
        return None
    return ProcessIdentity(boot_id(), pid, int(fields[_START_TIME]))


def identify_self() -> ProcessIdentity:
    me = identify(os.getpid())
    if me is None:
        raise RuntimeError("/proc does not show this process")
    return me


def alive(identity: ProcessIdentity) -> bool:
    return identify(identity.pid) == identity


def signal_group(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal the process group that this process leads; False where it is gone."""
    if not alive(identity):
        return False
    try:
        os.killpg(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Whether some process holds a ``flock`` on the file. The kernel lets it go exactly when its holder dies."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a ``flock`` on the file meanwhile, if nobody else does; says whether."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def find_leader(marker: str) -> ProcessIdentity | None:
    """The leader of a process group whose environment holds ``marker`` (``NAME=value``), among our own processes."""
    return next((leader for rest, leader in find_leaders(marker) if not rest), None)


def find_leaders(prefix: str) -> Iterator[tuple[str, ProcessIdentity]]:
    """Leaders of process groups with an entry of their environment that begins so, and how that entry goes on.

    Cost: reads a small file of every process.
    """
    wanted = prefix.encode()
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(entry.name)
        found = next((line for line in environment if line.startswith(wanted)), None)
        if found is not None and _leads_group(pid) and (leader := identify(pid)) is not None:
            yield found.removeprefix(wanted).decode(errors="replace"), leader


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False
