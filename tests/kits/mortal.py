"""Engines that die by SIGKILL at a moment that the test chooses, forked from one process that has loaded torch already.

Each is a process of its own, with its own attempt, lock and exit report, as ``python -m engine train`` makes them; only
the seconds that loading torch takes are spent once. As a program, this is that process: it reads an order a line.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from tests.surroundings import shared_processes
from wire.layout import JobDir

Place: TypeAlias = Literal["step", "line", "bytes", "fsync", "synced", "rename", "renamed"]
"""After a step, before anything is told of it; with half of a line of events on disk, or with half of what one write
adds to a checkpoint; before and after an fsync; before and after a rename."""

PLACES: tuple[Place, ...] = ("step", "line", "bytes", "fsync", "synced", "rename", "renamed")
KILLED = -signal.SIGKILL


class Moment(NamedTuple):
    place: Place
    n: int
    """Which one of its kind, counted from 1 in each attempt."""


class Mortals:
    """Runs engines, one at a time. For a fixture of a module or more: it starts within a few seconds."""

    def __enter__(self) -> Self:
        # No child of this process: tests that kill all that they have started would end it with the first of them.
        command = f"exec 3<&0; {shlex.quote(sys.executable)} -m {__name__} <&3 3<&- &"
        with shared_processes():
            shell = subprocess.Popen(
                ["/bin/sh", "-c", command],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            shell.wait()
        assert shell.stdin is not None
        assert shell.stdout is not None
        self._orders, self._answers = shell.stdin, shell.stdout
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.close()
        self._answers.read()  # until it has ended
        self._answers.close()

    def train(self, job: JobDir, dies_at: Moment | None = None, *, n_images_fit: int = 0) -> int:
        """One attempt; its exit status, ``KILLED`` where it died. Without a moment it lives to its end.

        Args:
            job: its spec is there.
            dies_at: when, if ever.
            n_images_fit: into the memory of its device at once; 0 for as many as there are.
        """
        order = {
            "dir": str(job.path),
            "dies_at": dies_at,
            "n_images_fit": n_images_fit,
            "environment": {"CACHE_DIR": str(job.path.parent / "cache")},
            "log": str(job.path / "log.txt"),
        }
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        return int(self._answers.readline())


def _serve() -> None:
    """Fork for each order, and say how the child ended."""
    import torch
    import torch._inductor.utils  # an optimiser imports it

    from engine import __main__ as engine_main
    from engine.train import verb  # noqa: F401

    assert torch.get_num_threads() >= 1
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            _live(order, engine_main.main)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


def _live(order: dict[str, Any], main: Callable[[list[str]], int]) -> None:
    from tests.kits.small_device import small_device

    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(order["environment"])
    if order["dies_at"]:
        _doom(Moment(*order["dies_at"]))
    status = 99
    try:
        with ExitStack() as surroundings:
            if order["n_images_fit"]:
                surroundings.enter_context(small_device(order["n_images_fit"]))
            status = main(["train", "--dir", order["dir"]])
    finally:
        sys.stdout.flush()
        os._exit(status)


def _doom(moment: Moment) -> None:  # noqa: C901 - one small function for each place
    from engine import checkpoint
    from engine.train.report import Report

    counted = 0

    def is_it(place: Place) -> bool:
        nonlocal counted
        counted += place == moment.place
        return place == moment.place and counted == moment.n

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    step, pwrite, fsync, replace = Report.step, os.pwrite, os.fsync, Path.replace
    write = checkpoint._HashingFile.write

    def mortal_step(self: Report, *arguments: Any, **named: Any) -> None:
        if is_it("step"):
            die()
        step(self, *arguments, **named)

    def mortal_pwrite(fd: int, data: bytes, offset: int) -> int:
        if is_it("line"):
            pwrite(fd, data[: len(data) // 2], offset)
            die()
        return pwrite(fd, data, offset)

    def mortal_write(self: checkpoint._HashingFile, data: bytes) -> int:
        if is_it("bytes"):
            write(self, bytes(data)[: len(data) // 2])
            self.flush()
            die()
        return write(self, data)

    def mortal_fsync(fd: int) -> None:
        if is_it("fsync"):
            die()
        fsync(fd)
        if is_it("synced"):
            die()

    def mortal_replace(self: Path, target: Path) -> Path:
        if is_it("rename"):
            die()
        replaced = replace(self, target)
        if is_it("renamed"):
            die()
        return replaced

    Report.step = mortal_step  # type: ignore[method-assign]
    os.pwrite, os.fsync = mortal_pwrite, mortal_fsync  # type: ignore[assignment]
    Path.replace = mortal_replace  # type: ignore[assignment,method-assign]
    checkpoint._HashingFile.write = mortal_write  # type: ignore[method-assign]


if __name__ == "__main__":
    _serve()
