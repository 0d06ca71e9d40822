"""The real web server and Redis, below a folder of the site, over a run that goes on by itself and a large export.

Started by ``manage.py shell -c`` with DATA_DIR, PORT and URL_PREFIX; the web server is a process of its own, as ``up``
starts it: what is read before the first request must be right there, too. Says what it prepared, and ends with stdin.
A file ``DATA_DIR/step`` lets the run go on to the step that stands in it, as its supervisor tells of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from config.start.places import Places
from config.start.programs import programs
from config.start.redis import find_redis_server, redis_conf
from jobs import stream
from jobs.models import Job
from jobs.services import token_create
from jobs.storage import storage
from tests.browser.pages import PASSWORD
from tests.browser.scripted_server import N_STEPS, make_run, train
from tests.dashboard.makers import checkpoint_of
from tests.kits.exported import export_job
from wire.events import Envelope
from wire.layout import ExportDir

LARGE_BYTES = 40 * 2**20


@contextmanager
def own_redis() -> Iterator[None]:
    places = Places(settings.DATA_DIR)
    places.run_dir.mkdir(parents=True, exist_ok=True)
    places.redis_socket_path.parent.mkdir(parents=True, exist_ok=True)
    places.redis_conf_path.write_text(redis_conf(places))
    process = subprocess.Popen([find_redis_server(), places.redis_conf_path], stdout=subprocess.DEVNULL)
    try:
        while not stream.reachable():
            assert process.poll() is None
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def web_server() -> Iterator[None]:
    known = programs(
        places=Places(settings.DATA_DIR), host="127.0.0.1", port=int(os.environ["PORT"]), redis_server=None
    )
    (command,) = [each.command for each in known if each.name == "web"]
    with (Path(settings.DATA_DIR) / "web.txt").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def make_large_export(owner: User, run: Job) -> str:
    """The path of its file below ``/api/v1/exports/``, of bytes that tell where they stand."""
    job = export_job(owner, run, checkpoint_of(run))
    folder = ExportDir(storage().job(job.pk).export_dir)
    report = json.loads(folder.report_path.read_text())
    content = large_content()
    (folder.path / report["files"][0]["path"]).write_bytes(content)
    report["files"][0] |= {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "crc32": zlib.crc32(content),
    }
    folder.report_path.write_text(json.dumps(report))
    return f"{job.pk}/files/{report['files'][0]['path']}"


def large_content() -> bytes:
    return b"".join(number.to_bytes(8, "big") for number in range(LARGE_BYTES // 8))


def obey(job_id: int, wish: Path) -> None:
    reached = N_STEPS
    while True:
        if wish.exists() and (step := wish.read_text()):
            wish.unlink()
            go_on(job_id, reached + 1, int(step))
            reached = int(step)
        time.sleep(0.05)


def go_on(job_id: int, first: int, last: int) -> None:
    before = Job.objects.get(pk=job_id).last_seq
    train(job_id, first, last)
    lines = storage().job(job_id).events_path.read_bytes().splitlines()
    told = [Envelope.model_validate_json(line) for line in lines]
    stream.publish(job_id, [envelope for envelope in told if envelope.seq > before])
    stream.publish_change(job_id)


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    owner = User.objects.create_superuser("ada", password=PASSWORD)
    run_id = make_run(owner)
    large = make_large_export(owner, Job.objects.get(pk=run_id))
    _, token = token_create(owner, "tests", scope="write")
    with own_redis(), web_server():
        threading.Thread(target=obey, args=[run_id, Path(settings.DATA_DIR) / "step"], daemon=True).start()
        sys.stdout.write(json.dumps({"run": run_id, "large": large, "token": token}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
