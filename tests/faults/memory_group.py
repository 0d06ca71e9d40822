"""A control group of the kernel with little memory, in which a process of a test is started."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
HERE = Path(__file__)


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """Its folder, of either version of control groups.

    The test is skipped, and so not passed, where this machine lets nobody make one.
    """
    import pytest  # not needed by the program that this file is, too

    folder = _parent() / f"fovea-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        limits = [folder / name for name in ("memory.limit_in_bytes", "memory.max") if (folder / name).exists()]
        if not limits:
            pytest.skip(f"{folder} has no limit of memory")
        limits[0].write_text(str(limit_bytes))
        for name in ("memory.swappiness", "memory.swap.max"):
            if (folder / name).exists():
                (folder / name).write_text("0")
        yield folder
    finally:
        folder.rmdir()


def inside(group: Path, command: list[str]) -> list[str]:
    """The command that runs ``command`` in the group."""
    return [sys.executable, str(HERE), str(group), *command]


def _parent() -> Path:
    """Below our own group in version 1; in version 2 groups with processes have no children, so at the top."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            own = ROOT / "memory" / path.lstrip("/")
            return own if own.is_dir() else ROOT / "memory"
    return ROOT


if __name__ == "__main__":
    group, *command = sys.argv[1:]
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    os.execv(command[0], command)  # noqa: S606
