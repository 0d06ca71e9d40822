"""The real web server over runs with exports in every state: no Redis, no agent, no engine.

Started by ``manage.py shell -c`` with DATA_DIR and PORT; says the session and the runs' ids, and ends with stdin.
A file ``DATA_DIR/wish.json`` moves an export on and is taken away then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from jobs.models import Attempt, ExportOverride, Job, JobInput
from jobs.storage import storage
from tests.browser.scripted_server import serve
from tests.dashboard.makers import checkpoint_of, import_job, training_job
from tests.kits.exported import export_job, write_export

TITLE = "<b>digits</b> & <a href='x'>more</a>"
ERROR: dict[str, Any] = {
    "error_code": "export.operator_refused",
    "error_message": "TensorRT for RTX takes no operator GridSample (in features.12.sample).",
    "error_hint": "Export to ONNX instead, or choose another network.",
}


def make_run(owner: User, title: str) -> Job:
    """With a checkpoint, and classes that its dataset has."""
    dataset: Job = import_job(owner, title="Digits")
    run: Job = training_job(owner, dataset, status="succeeded", title=title)
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    checkpoint = checkpoint_of(run)
    checkpoint.meta |= {"classes": dataset.artifacts.get().meta["classes"], "n_classes": 10}
    checkpoint.save()
    return run


def make_table(owner: User) -> dict[str, int]:
    """A run with an export to each target: passed, failed, refused, not run, under way and waiting."""
    run = make_run(owner, TITLE)
    checkpoint = run.artifacts.get()
    rtx: dict[str, Any] = {"backend": "tensorrt_rtx"}
    made = {
        "old": export_job(owner, run, checkpoint),
        "pytorch": export_job(owner, run, checkpoint, backend="pytorch"),
        "fp32": export_job(owner, run, checkpoint),
        "fp16": export_job(
            owner, run, checkpoint, precision="fp16", status="running", stage="verify", total=1000, done=400
        ),
        "int8": export_job(owner, run, checkpoint, precision="int8", outcome="failed"),
        "rtx32": export_job(owner, run, checkpoint, outcome="not_run", **rtx),
        "rtx16": export_job(
            owner, run, checkpoint, precision="fp16", status="failed", ended_at=timezone.now(), **rtx, **ERROR
        ),
        "rtx8": export_job(
            owner,
            run,
            checkpoint,
            precision="int8",
            status="queued",
            wait_reason="Waits for the processor: 1 export is before it.",
            **rtx,
        ),
    }
    for job in made.values():
        Attempt.objects.create(job=job, n=1, fence=job.pk + 1000, host="here")
        log_path = storage().job(job.pk).attempt(1).log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_text(f"log of {job.title}\n")
    return {"run": run.pk} | {name: job.pk for name, job in made.items()}


def obey(wishes: Path) -> None:
    while True:
        if wishes.exists():
            move(json.loads(wishes.read_text()))
            wishes.unlink()
        time.sleep(0.05)


def move(wish: dict[str, Any]) -> None:
    """To so many images done, or to its end with an outcome."""
    job = Job.objects.get(pk=wish["job"])
    if "outcome" in wish:
        write_export(storage().root, job, precision=job.spec["precision"], outcome=wish["outcome"])
        Job.objects.filter(pk=job.pk).update(status="succeeded", ended_at=timezone.now())
    else:
        Job.objects.filter(pk=job.pk).update(done=wish["done"])


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    owner = User.objects.create_user("ada", password="x")  # noqa: S106
    client = Client()
    client.force_login(owner)
    table = make_table(owner)
    answered = make_run(owner, "Answered for")
    failed = export_job(owner, answered, answered.artifacts.get(), precision="int8", outcome="failed")
    ExportOverride.objects.create(job=failed, by=owner, reason="Only for the demo at the fair")
    made = {"table": table, "empty": make_run(owner, "Nothing exported").pk, "answered": answered.pk}
    threading.Thread(target=obey, args=[Path(os.environ["DATA_DIR"]) / "wish.json"], daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    sys.stdout.write(json.dumps(made | {"session": client.cookies["sessionid"].value}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
