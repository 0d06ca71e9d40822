"""Stands in for ``python -m engine``: a trainer without a network, whose faults are written in its spec.

It keeps the same promises: one lock, events in order, checkpoints after their events, an exit report last.
``spec.json`` holds ``script``: ``steps``, ``step_s``, ``checkpoint_every``, ``crash_at`` (attempt -> step),
``fail_at``, ``deaf`` (ignores SIGTERM), ``burst`` (points a step).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import signal
import time
from pathlib import Path

from engine.emit import JsonlSink
from wire.events import ArtifactMade, AttemptStarted, CheckpointBest, Notice, Progress, RunEnded, Scalars, SeriesInfo
from wire.layout import JobDir
from wire.specs import ExitReport


class Interrupted(Exception):
    pass


def value_at(step: int) -> float:
    return math.exp(-step / 50) + 0.1 * math.sin(step)


class Trainer:
    def __init__(self, job: JobDir, n: int) -> None:
        self.job = job
        self.n = n
        self.script = json.loads(job.spec_path.read_text()).get("script", {})
        self.sink = JsonlSink(job.events_path)
        self.stopped = False
        if self.script.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else:
            signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopped = True

    @property
    def checkpoint_path(self) -> Path:
        return self.job.checkpoints_dir / "latest.json"

    def run(self) -> ExitReport:
        print(f"attempt {self.n} begins", flush=True)  # noqa: T201 - this is the log
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

    def step(self, step: int, steps: int) -> ExitReport | None:
        time.sleep(self.script.get("step_s", 0.01))
        for _ in range(self.script.get("burst", 1)):
            values = {"train/loss": None if step == 7 else value_at(step), "lr": 0.1}
            self.sink.emit(Scalars(step=step, values=values, nonfinite={"train/loss": "nan"} if step == 7 else {}))
        self.sink.emit(Progress(stage="train", done=step, total=steps))
        if self.script.get("crash_at", {}).get(str(self.n)) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.script.get("fail_at") == step:
            return ExitReport(outcome="failed", code="loss.not_finite", message=f"step {step}", hint="lower it")
        if self.stopped:
            self.checkpoint(step)
            return self.stop_report()
        if step % self.script.get("checkpoint_every", 5) == 0:
            self.checkpoint(step)
        return None

    def checkpoint(self, step: int) -> None:
        self.sink.sync()
        self.checkpoint_path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.checkpoint_path.with_suffix(".tmp")
        beside.write_text(json.dumps({"step": step}))
        beside.replace(self.checkpoint_path)
        self.sink.emit(
            ArtifactMade(
                artifact="checkpoint",
                name=f"step-{step}",
                path="artifacts/checkpoints/latest.json",
                sha256="0" * 64,
                bytes=beside.stat().st_size if beside.exists() else 12,
                meta={"step": step},
            )
        )
        self.sink.emit(CheckpointBest(step=step, series="train/loss", value=value_at(step), artifact=f"step-{step}"))

    def stop_report(self) -> ExitReport:
        wish = self.job.attempt(self.n).stop_path
        pause = wish.exists() and wish.read_text() == "pause"
        return ExitReport(outcome="paused" if pause else "cancelled")


STATUS = {"succeeded": 0, "failed": 64, "errored": 70, "cancelled": 75, "paused": 75}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb")
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--attempt", type=int)
    arguments = parser.parse_args()
    job = JobDir(arguments.dir)
    with job.lock_path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trainer = Trainer(job, arguments.attempt)
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
