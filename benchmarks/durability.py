"""What it costs a training to lose nothing: every fsync, the beat and the watch for it, and the lease in the database.

The real loop in one process; beside it one that does what a supervisor does for durability: it renews the attempt in a
real database (SQLite, or the one of DATABASE_URL) and writes the beat. Blocks of some seconds are made in turns, with
all of it and with none: without it, fsync returns at once, nobody watches, and the process beside sleeps. Checkpoints
and events are written in both, so that only what makes them durable is measured.

Two figures come of it, each with its one-sided 95 % limit by Student's t over the pairs of neighbouring blocks:

- ``measured``: how much longer a step takes with it. On a machine that does other work this is mostly noise.
- ``accounted``: seconds in fsync, of threads that watch, and of processor time of the process beside, to those of the
  block. All of it is taken to hold up the training, so the true cost is at most this.

    python -m benchmarks.durability [--model lenet5] [--pairs 15] [--block-s 10]
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import torch

from benchmarks.overhead import T_95_ONE_SIDED, TimedValidation
from benchmarks.real_loop import RealLoop, context_in, import_digits, on_digits
from engine.data.loader import Batch
from engine.device import n_physical_cores
from engine.stop import BeatWatch, Stop
from engine.train.loop import Batches
from wire.beat import boot_clock_s, read_deadlines
from wire.layout import AttemptDir

WARM_UP_BLOCKS = 2
LOOK_PAUSE_S = 0.5
"""As ``engine.lease`` looks, where a lease is of the usual length."""


class LeaseLooks(threading.Thread):
    """Looks at the beat file and at the clock as ``engine.lease`` does, and keeps count of the processor time."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._ended = threading.Event()
        self.cpu_s = 0.0

    def run(self) -> None:
        while not self._ended.wait(LOOK_PAUSE_S):
            read_deadlines(self._path)
            boot_clock_s()
            self.cpu_s = time.thread_time()

    def close(self) -> None:
        self._ended.set()
        self.join()


class Supervisor:
    """The process beside, which renews and beats while it is told to."""

    def __init__(self, folder: Path, beat_path: Path) -> None:
        environment = {**os.environ, "DATA_DIR": str(folder), "REDIS_URL": "unix:///nonexistent"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.durability", "--beside", str(beat_path)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._orders = cast(TextIO, self._process.stdin)
        self._answers = cast(TextIO, self._process.stdout)
        self._answer()  # migrations are done

    def turn(self, *, on: bool) -> float:
        """Begin, or end; gives the processor time that it has taken since it began, in seconds."""
        self._orders.write("on\n" if on else "off\n")
        self._orders.flush()
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> float:
        return float(self._answers.readline())


@dataclass(frozen=True, slots=True)
class Block:
    n_steps: int
    took_s: float
    durable_s: float
    """In fsync, of watching threads, and of the process beside."""

    @property
    def step_s(self) -> float:
        return self.took_s / self.n_steps


class Durability:
    """All of it, on or off."""

    def __init__(self, attempt: AttemptDir, supervisor: Supervisor) -> None:
        self._attempt = attempt
        self._supervisor = supervisor
        self._fsync = os.fsync
        self._looks: LeaseLooks | None = None
        self._watch: BeatWatch | None = None
        self._on = False
        self._synced_s = 0.0
        os.fsync = self._timed  # type: ignore[assignment]

    def turn(self, *, on: bool) -> float:
        """Gives what it took since it was last turned."""
        took_s, self._synced_s, self._on = self._synced_s, 0.0, on
        took_s += self._supervisor.turn(on=on)
        if self._looks and self._watch:
            self._looks.close()
            self._watch.close()
            took_s += 2 * self._looks.cpu_s  # the other watch does less than this one
            self._looks = self._watch = None
        if on:
            self._looks = LeaseLooks(self._attempt.beat_path)
            self._watch = BeatWatch(Stop(self._attempt), self._attempt, timeout_s=60)
            self._looks.start()
            self._watch.start()
        return took_s

    def close(self) -> None:
        self.turn(on=False)
        os.fsync = self._fsync

    def _timed(self, fd: int) -> None:
        if not self._on:
            return
        began_at = time.perf_counter()
        self._fsync(fd)
        self._synced_s += time.perf_counter() - began_at


class TimedBatches:
    """Hands on the batches of training, and turns durability on and off between blocks."""

    def __init__(self, batches: Batches, durability: Durability, stop: Stop, *, n_blocks: int, block_s: float) -> None:
        self._batches = batches
        self._durability = durability
        self._stop = stop
        self._n_blocks = n_blocks
        self._block_s = block_s
        self._n_steps = 0
        self._began_at = 0.0
        self.validation_s = 0.0
        self.blocks: list[Block] = []

    @property
    def n_batches(self) -> int:
        return self._batches.n_batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for batch in self._batches.epoch(epoch, start):
            took_s = time.perf_counter() - self._began_at - self.validation_s
            if not self._began_at or took_s >= self._block_s:
                self._next_block(took_s)
            self._n_steps += 1
            yield batch

    def _next_block(self, took_s: float) -> None:
        is_first = not self._began_at
        n_done = len(self.blocks) + (not is_first)
        durable_s = self._durability.turn(on=n_done % 2 == 1)
        if not is_first:
            self.blocks.append(Block(self._n_steps, took_s, durable_s))
        if n_done >= self._n_blocks:
            self._stop.ask()
        self._n_steps, self.validation_s = 0, 0.0
        self._began_at = time.perf_counter()


def measure(model: str, n_pairs: int, block_s: float) -> dict[str, Any]:
    torch.set_num_threads(n_physical_cores())
    with tempfile.TemporaryDirectory() as folder:
        import_digits(Path(folder) / "1")
        blocks = _train(Path(folder) / "2", model, WARM_UP_BLOCKS + 2 * n_pairs, block_s)[WARM_UP_BLOCKS:]
    pairs = list(zip(blocks[0::2], blocks[1::2], strict=True))
    return {
        "model": model,
        "pairs": n_pairs,
        "block_s": block_s,
        "step_ms_off": round(1000 * statistics.median(off.step_s for off, _ in pairs), 2),
        "step_ms_on": round(1000 * statistics.median(on.step_s for _, on in pairs), 2),
        "measured": _told([on.step_s / off.step_s - 1 for off, on in pairs]),
        "accounted": _told([on.durable_s / (on.took_s - on.durable_s) for _, on in pairs]),
        "database": "PostgreSQL" if "DATABASE_URL" in os.environ else "SQLite",
    }


def _told(shares: Sequence[float]) -> dict[str, float]:
    mean = statistics.mean(shares)
    bound = mean + T_95_ONE_SIDED[len(shares) - 1] * statistics.stdev(shares) / math.sqrt(len(shares))
    return {"pct": round(100 * mean, 3), "upper_95_pct": round(100 * bound, 3)}


def _train(folder: Path, model: str, n_blocks: int, block_s: float) -> list[Block]:
    context = context_in(folder)
    supervisor = Supervisor(folder.parent / "data", context.attempt.beat_path)
    loop = RealLoop(on_digits(model), context)
    durability = Durability(context.attempt, supervisor)
    timed = TimedBatches(loop.batches, durability, context.stop, n_blocks=n_blocks, block_s=block_s)
    loop.train(timed, TimedValidation(loop.validation, timed) if loop.validation else None)
    durability.close()
    supervisor.close()
    return timed.blocks


def _be_beside(beat_path: Path) -> None:
    """The supervisor's part: the attempt's row renewed, the beat written, each as often as in an installation."""
    renew = _leased_attempt(beat_path)
    print(0.0, flush=True)
    ended: threading.Event | None = None
    working: threading.Thread | None = None
    began_s = time.process_time()
    for line in sys.stdin:
        if working and ended:
            ended.set()
            working.join()
            working = None
        print(time.process_time() - began_s, flush=True)
        began_s = time.process_time()
        if line.strip() == "on":
            ended = threading.Event()
            working = threading.Thread(target=renew, args=(ended,))
            working.start()


def _leased_attempt(beat_path: Path) -> Callable[[threading.Event], None]:
    """Rows of a training on a leased device, and what keeps them."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.utils import timezone

    from jobs import leases, transitions
    from jobs.models import Attempt, Device, DeviceLease
    from jobs.process import identify_self
    from jobs.states import Status
    from jobs.supervision.beat import Beat

    call_command("migrate", verbosity=0)
    owner = get_user_model().objects.create_user(f"durability-{os.getpid()}")
    job = transitions.begin(status=Status.QUEUED, verb="train", spec={}, title="durability", owner=owner, wants=["cpu"])
    me, soon = identify_self(), timezone.now() + leases.lease()
    attempt = Attempt.objects.create(
        job=job, n=1, fence=1, host="here", lease_expires_at=soon, heartbeat_at=timezone.now(),
        supervisor_pid=me.pid, supervisor_started=me.started,
    )  # fmt: skip
    device = Device.objects.create(host="here", uuid=f"cpu-{os.getpid()}", kind="cpu", name="CPU", seen_at=soon)
    DeviceLease.objects.create(device=device, attempt=attempt, expires_at=soon)

    def work(ended: threading.Event) -> None:
        beat = Beat(beat_path, is_leased=True, end_engine=lambda: None)
        beat.start()
        while True:
            beat.renewed(leases.renew(attempt))
            if ended.wait(leases.renewal_pause_s()):
                break
        beat.stop()

    return work


def main() -> None:
    logging.disable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--pairs", type=int, default=15, choices=[n + 1 for n in T_95_ONE_SIDED])
    parser.add_argument("--block-s", type=float, default=10.0)
    parser.add_argument("--beside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.beside:
        _be_beside(arguments.beside)
        return
    print(json.dumps(measure(arguments.model, arguments.pairs, arguments.block_s), indent=2))


if __name__ == "__main__":
    main()
