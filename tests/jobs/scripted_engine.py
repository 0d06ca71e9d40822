"""Stands in for ``python -m engine``: a trainer without a network, whose faults are written in its spec.

It keeps the same promises: one lock, events in order, checkpoints after their events, an exit report last, and a stop
when its supervisor falls silent. ``spec.json`` holds ``script``:

``steps``, ``step_s``, ``checkpoint_every``, ``burst`` (points a step), ``start_s`` (before it says anything),
``save_s`` (in the middle of a save), ``deaf`` (ignores SIGTERM), ``log_bytes`` (said before the first step), ``child``
(has a process of its own), ``scratch`` (has a temporary file in the scratch folder while it works).

Faults come at a step: a number (in every attempt) or ``{"<attempt>": step}``:
``crash_at`` (SIGKILL), ``abort_at`` (SIGABRT), ``exit_at`` (``{"1": [step, status]}``, no report), ``hang_at`` (no step
follows, SIGTERM is not heard), ``fail_at`` and ``nan_at`` (not a finite loss), ``oom_at`` (device), ``eat_at`` (all the
machine's memory), ``kill_in_save_at`` (SIGKILL in the middle of the save at that step), ``disk_full_at`` (no room in
the middle of it).
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import fcntl
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from engine.emit import JsonlSink
from engine.lease import Lease
from engine.stop import BeatWatch, Stop, listen
from wire.errors import DiskFull, FoveaError, LossNotFinite, OutOfMemory, UserError
from wire.events import ArtifactMade, AttemptStarted, CheckpointBest, Notice, Progress, RunEnded, Scalars, SeriesInfo
from wire.layout import JobDir
from wire.specs import ExitReport

LIVED = "lived"
"""Beside the log of an attempt: a line for each step, when it was by CLOCK_BOOTTIME, which all processes share."""
_CHUNK = b"x" * 1023 + b"\n"
_BLOCK = _CHUNK * 1024


def value_at(step: int) -> float:
    return math.exp(-step / 50) + 0.1 * math.sin(step)


class Trainer:
    def __init__(self, job: JobDir, n: int) -> None:
        self.job = job
        self.n = n
        self.script: dict[str, Any] = json.loads(job.spec_path.read_text()).get("script", {})
        self.sink = JsonlSink(job.events_path)
        self.stop = Stop(job.attempt(n))
        listen(self.stop)
        if self.script.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.lived = (job.attempt(n).path / LIVED).open("a")
        self.beats = _watched(self.stop, job, n)

    @property
    def checkpoint_path(self) -> Path:
        return self.job.checkpoints_dir / "latest.json"

    def run(self) -> ExitReport:
        try:
            return self.train()
        except FoveaError as error:
            outcome = "failed" if isinstance(error, UserError) else "errored"
            return ExitReport(outcome=outcome, code=error.code, message=error.message, hint=error.hint)
        finally:
            if self.beats is not None:
                self.beats.close()

    def train(self) -> ExitReport:
        print(f"attempt {self.n} begins", flush=True)  # noqa: T201 - this is the log
        self.prepare()
        steps = self.script.get("steps", 20)
        first = json.loads(self.checkpoint_path.read_text())["step"] if self.checkpoint_path.exists() else 0
        self.sink.emit(
            AttemptStarted(
                n=self.n,
                from_step=first,
                total_steps=steps,
                steps_per_epoch=5,
                series=(SeriesInfo(name="train/loss", better="lower"), SeriesInfo(name="lr")),
            )
        )
        for step in range(first + 1, steps + 1):
            if (report := self.step(step, steps)) is not None:
                return report
        self.sink.emit(Notice(level="info", code="done", text="all steps done"))
        return ExitReport(outcome="succeeded")

    def prepare(self) -> None:
        time.sleep(self.script.get("start_s", 0.0))
        if self.script.get("child"):
            subprocess.Popen(["sleep", "600"])
        if self.script.get("scratch"):
            self.job.scratch_dir.mkdir(exist_ok=True)
            (self.job.scratch_dir / "half").write_bytes(_CHUNK)
        for _ in range(self.script.get("log_bytes", 0) // len(_BLOCK)):
            sys.stdout.buffer.write(_BLOCK)

    def step(self, step: int, steps: int) -> ExitReport | None:
        time.sleep(self.script.get("step_s", 0.01))
        for _ in range(self.script.get("burst", 1)):
            values = {"train/loss": None if step == 7 else value_at(step), "lr": 0.1}
            self.sink.emit(Scalars(step=step, values=values, nonfinite={"train/loss": "nan"} if step == 7 else {}))
        self.sink.emit(Progress(stage="train", done=step, total=steps))
        self.lived.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME):.3f}\n")
        self.lived.flush()
        self.suffer(step)
        if self.stop.asked:
            self.checkpoint(step)
            return ExitReport(outcome=self.stop.outcome)
        if step % self.script.get("checkpoint_every", 5) == 0:
            self.checkpoint(step)
        return None

    def suffer(self, step: int) -> None:
        """The faults of this step."""
        if self.due("crash_at", step):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.due("abort_at", step):
            os.abort()
        if (status := self.exit_status(step)) is not None:
            os._exit(status)
        if self.due("hang_at", step):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        if self.due("fail_at", step) or self.due("nan_at", step):
            raise LossNotFinite(f"step {step}", hint="lower it")
        if self.due("eat_at", step):
            _eat()
        if self.due("oom_at", step):
            raise OutOfMemory(f"The device has no room for step {step}.", hint="A smaller batch needs less.")

    def due(self, fault: str, step: int) -> bool:
        at = self.script.get(fault)
        return (at.get(str(self.n)) if isinstance(at, dict) else at) == step

    def exit_status(self, step: int) -> int | None:
        at, status = self.script.get("exit_at", {}).get(str(self.n), (None, None))
        return status if at == step else None

    def checkpoint(self, step: int) -> None:
        self.sink.sync()
        self.checkpoint_path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"step": step}).encode()
        self.save(step, content)
        self.sink.emit(
            ArtifactMade(
                artifact="checkpoint",
                name=f"step-{step}",
                path="artifacts/checkpoints/latest.json",
                sha256=hashlib.sha256(content).hexdigest(),
                bytes=len(content),
                meta={"step": step},
            )
        )
        self.sink.emit(CheckpointBest(step=step, series="train/loss", value=value_at(step), artifact=f"step-{step}"))

    def save(self, step: int, content: bytes) -> None:
        beside = self.checkpoint_path.with_suffix(".tmp")
        try:
            with beside.open("wb") as file:
                file.write(content[:4])
                file.flush()
                time.sleep(self.script.get("save_s", 0.0))
                if self.due("kill_in_save_at", step):
                    os.kill(os.getpid(), signal.SIGKILL)
                self.write_rest(file, step, content[4:])
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise DiskFull("The disk is full.", hint="Make room.") from error
        beside.replace(self.checkpoint_path)

    def write_rest(self, file: BinaryIO, step: int, rest: bytes) -> None:
        if self.due("disk_full_at", step):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.write(rest)


def _eat() -> None:
    """All the memory there is: the system ends it."""
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1) * 2**20))


def _watched(stop: Stop, job: JobDir, n: int) -> BeatWatch | None:
    timeout_s = float(os.environ.get("FOVEA_BEAT_TIMEOUT_S") or 0)
    if not timeout_s:
        return None
    watch = BeatWatch(stop, job.attempt(n), timeout_s=timeout_s)
    watch.start()
    return watch


STATUS = {"succeeded": 0, "failed": 64, "errored": 70, "cancelled": 75, "paused": 75}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb")
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--attempt", type=int)
    arguments = parser.parse_args()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    job = JobDir(arguments.dir)
    lease = Lease.of(job.attempt(arguments.attempt))
    with job.lock_path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trainer = Trainer(job, arguments.attempt)
        if lease is not None:
            lease.watch(trainer.stop)
        report = trainer.run()
        trainer.sink.emit(RunEnded(**report.model_dump(exclude={"last_seq"})))
        trainer.sink.sync()
        exit_path = job.attempt(arguments.attempt).exit_path
        beside = exit_path.with_suffix(".tmp")
        beside.write_text(report.model_dump_json())
        beside.replace(exit_path)
    return STATUS[report.outcome]


if __name__ == "__main__":
    raise SystemExit(main())
