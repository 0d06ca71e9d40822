"""How long a training stands still when its process is killed: ``kill -9`` of the trainer to its next step.

The whole product as a person starts it, and the real trainer: LeNet-5 on the handwritten digits, with the default rule
for checkpoints. ``--runs 3`` trains three at once and kills all three at the same moment. The time is that between the
kill and the moment that the first log point of the next attempt carries.

    python -m benchmarks.recovery [--runs 1] [--rounds 5] [--database sqlite]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import time
from datetime import datetime
from typing import Any

from benchmarks.installation import Database, Installation, installed
from tests.browser.stack import wait_for

Event = dict[str, Any]


def measure(*, n_runs: int, n_rounds: int, database: Database, seed: int) -> dict[str, Any]:
    dice = random.Random(seed)  # noqa: S311
    with installed(database) as installation:
        installation.make_devices(n_runs)
        dataset = installation.import_digits()
        ids = [installation.train(dataset, f"run {n}", epochs=10_000) for n in range(n_runs)]
        installation.until_running(ids)
        waits_s = [_killed(installation, ids, n + 1, dice) for n in range(n_rounds)]
        lost = [_recomputed(installation.stack.events(job_id)) for job_id in ids]
        for job_id in ids:
            installation.call("POST", f"/jobs/{job_id}/cancel")
        installation.until_ended(ids, patience_s=120)
        installation.check_whole(ids)
    each_s = [wait_s for of_round in waits_s for wait_s in of_round]
    return {
        "database": database,
        "runs_at_once": n_runs,
        "kills": len(each_s),
        "to_the_next_step_s": {
            "median": round(statistics.median(each_s), 1),
            "most": round(max(each_s), 1),
            "each": [round(wait_s, 1) for wait_s in each_s],
        },
        "steps_done_again": lost,
        "history": "whole",
    }


def _killed(installation: Installation, ids: list[int], n_attempt: int, dice: random.Random) -> list[float]:
    """Seconds to the next step of each run, all of which are killed now."""
    stack = installation.stack
    # Somewhere between two checkpoints, and long enough after a start for it to have been worth something.
    wait_for("a checkpoint", lambda: all(_has_checkpoint(stack.events(job_id), n_attempt) for job_id in ids))
    time.sleep(dice.uniform(1, 6))
    pids = [stack.trainer_pid(job_id) for job_id in ids]
    killed_at = time.time()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_for(
        "the next step of every run",
        lambda: all(_first_step_at(stack.events(job_id), n_attempt + 1) for job_id in ids),
        patience_s=300,
    )
    steps_at = [_first_step_at(stack.events(job_id), n_attempt + 1) or 0.0 for job_id in ids]
    return [step_at - killed_at for step_at in steps_at]


def _since(events: list[Event], n_attempt: int) -> list[Event]:
    """Those of this attempt and later."""
    begins = (
        index
        for index, each in enumerate(events)
        if each["event"]["kind"] == "attempt.started" and each["event"]["n"] == n_attempt
    )
    return events[next(begins, len(events)) :]


def _has_checkpoint(events: list[Event], n_attempt: int) -> bool:
    kinds = (each["event"] for each in _since(events, n_attempt))
    return any(event["kind"] == "artifact.made" and event["artifact"] == "checkpoint" for event in kinds)


def _first_step_at(events: list[Event], n_attempt: int) -> float | None:
    """When the first log point was written, in seconds since 1970."""
    points = (each["at"] for each in _since(events, n_attempt) if "train/loss" in each["event"].get("values", ()))
    first = next(points, None)
    return None if first is None else datetime.fromisoformat(first).timestamp()


def _recomputed(events: list[Event]) -> list[int]:
    """Steps that each further attempt did again."""
    done, again = 0, []
    for each in events:
        event = each["event"]
        if event["kind"] == "attempt.started" and event["n"] > 1:
            again.append(max(0, done - event["from_step"]))
        elif event["kind"] == "scalars":
            done = event["step"]
    return again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    print(json.dumps(measure(n_runs=told.runs, n_rounds=told.rounds, database=told.database, seed=told.seed), indent=2))


if __name__ == "__main__":
    main()
