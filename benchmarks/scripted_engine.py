"""Stands in for ``python -m engine``: trains nothing and says so at a given pace, so that what is timed is the way.

``SCRIPTED_POINTS`` log points, ``SCRIPTED_HZ`` of them a second, of ``SCRIPTED_SERIES`` series where that is more than
the usual five; everything but training goes to the real engine.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from engine import __main__ as engine
from engine.emit import JsonlSink
from wire.events import AttemptStarted, Progress, RunEnded, Scalars, SeriesInfo
from wire.layout import JobDir
from wire.specs import ExitReport

SERIES = ("train/loss", "train/top1", "lr", "time/images_s", "time/data_wait_pct")
WAIT_FOR_THE_PAGE_S = 8.0


def train(job: JobDir, n: int) -> None:
    n_points = int(os.environ["SCRIPTED_POINTS"])
    interval_s = 1 / float(os.environ["SCRIPTED_HZ"])
    job.attempt(n).path.mkdir(parents=True, exist_ok=True)
    sink = JsonlSink(job.events_path)
    further = [f"extra/{n}" for n in range(int(os.environ.get("SCRIPTED_SERIES", "5")) - len(SERIES))]
    series = tuple(SeriesInfo(name=name) for name in (*SERIES, *further))
    sink.emit(AttemptStarted(n=n, total_steps=n_points, steps_per_epoch=50, series=series))
    time.sleep(WAIT_FOR_THE_PAGE_S)
    next_at = time.monotonic()
    for step in range(1, n_points + 1):
        next_at += interval_s
        time.sleep(max(0.0, next_at - time.monotonic()))
        values = {"train/loss": 2 / step**0.5, "train/top1": step / n_points, "lr": 1e-3, "time/images_s": 900.0}
        more = dict.fromkeys(further, step % 97 / 97)
        sink.emit(Scalars(step=step, values={**values, "time/data_wait_pct": 1.0, **more}))
        sink.emit(Progress(stage="train", done=step, total=n_points))
    sink.emit(RunEnded(outcome="succeeded"))
    sink.sync()
    report = ExitReport(outcome="succeeded", last_seq=sink.last_seq)
    sink.close()
    job.attempt(n).exit_path.write_text(report.model_dump_json())


def main(argv: list[str]) -> int:
    if argv[:1] != ["train"]:
        return engine.main(argv)
    os.nice(int(os.environ.get("FOVEA_NICE") or 0))  # as the real one does
    arguments = dict(zip(argv[1::2], argv[2::2], strict=True))
    train(JobDir(Path(arguments["--dir"])), int(arguments["--attempt"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
