"""The real web server over runs that a test writes line by line: no Redis, no agent, no trainer.

Started by ``manage.py shell -c`` with DATA_DIR and PORT. Each line of JSON on stdin is a wish, answered by a line on
stdout: ``{"do": "run"}`` makes a run and says its id, ``train`` lets it go from one step to another, ``status`` moves
its row. What is written goes through the recorder and into the file, as a supervisor does it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from jobs.models import Attempt, Job
from jobs.recorder import record
from jobs.storage import storage
from tests.dashboard.makers import import_job, training_job
from wire.events import AttemptStarted, CheckpointBest, Envelope, Event, Progress, Scalars, SeriesInfo

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
N_STEPS = 400
RESUMED_AT = 200
GAPS = range(100, 110)
STEPS_PER_EPOCH = 40
TITLE = "<b>digits</b> & <a href='x'>more</a>"


def make_run(owner: User) -> int:
    """Running, resumed once, with a gap and a best checkpoint."""
    job: Job = training_job(owner, import_job(owner), title=TITLE)
    series = (SeriesInfo(name="val/top1", unit="%"), SeriesInfo(name="train/top1", unit="%"))
    lengths = {"total_steps": 1000, "steps_per_epoch": STEPS_PER_EPOCH}
    say(job.pk, AttemptStarted(n=1, series=series, **lengths))
    train(job.pk, 1, RESUMED_AT + 30)
    Attempt.objects.filter(job=job).update(ended_at=BEGAN)
    Attempt.objects.create(job=job, n=2, fence=2, host="here")
    say(job.pk, AttemptStarted(n=2, from_step=RESUMED_AT, **lengths))
    train(job.pk, RESUMED_AT + 1, N_STEPS)
    say(job.pk, CheckpointBest(step=320, series="val/top1", value=320 / 4.5, artifact="step-320"))
    return job.pk


def train(job_id: int, first: int, last: int) -> None:
    say(job_id, *(event for step in range(first, last + 1) for event in _step(step)))


def say(job_id: int, *events: Event) -> None:
    job = Job.objects.get(pk=job_id)
    made = [
        Envelope(seq=seq, at=BEGAN + timedelta(seconds=seq), event=event)
        for seq, event in enumerate(events, start=job.last_seq + 1)
    ]
    path = storage().job(job_id).events_path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(each.model_dump_json() + "\n" for each in made)
    record(Attempt.objects.filter(job=job).latest("n"), made)


def _step(step: int) -> Iterator[Event]:
    loss = None if step in GAPS else math.exp(-step / 100) + 0.05 * math.sin(step)
    yield Scalars(
        step=step,
        values={"train/loss": loss, "train/top1": step / 5, "lr": 1e-3 * step, "time/images_s": 900.0},
        nonfinite={"train/loss": "nan"} if loss is None else {},
    )
    if step % STEPS_PER_EPOCH == 0:
        yield Scalars(step=step, values={"val/loss": math.exp(-step / 90), "val/top1": step / 4.5})
        yield Progress(stage="train", done=step, total=1000)


def obey(owner: User, wish: dict[str, Any]) -> Any:
    match wish["do"]:
        case "run":
            return make_run(owner)
        case "train":
            return train(wish["job"], wish["first"], wish["last"])
        case "status":
            return Job.objects.filter(pk=wish["job"]).update(status=wish["status"])
        case other:
            raise ValueError(f"no such wish: {other}")


def serve() -> None:
    import uvicorn

    from config.asgi import application

    uvicorn.run(application, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="error", lifespan="off")


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    owner = User.objects.create_user("ada", password="x")  # noqa: S106
    client = Client()
    client.force_login(owner)
    threading.Thread(target=serve, daemon=True).start()
    answer(client.cookies["sessionid"].value)
    for line in sys.stdin:
        answer(obey(owner, json.loads(line)))


def answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
