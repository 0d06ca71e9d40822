"""The real web server and the service of pictures over two datasets: no Redis, no agent, no import.

Started by ``manage.py shell -c`` with DATA_DIR and PORT; says the session and the datasets' ids, and ends with stdin.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from jobs.models import Job
from jobs.storage import storage
from tests.browser.scripted_server import serve
from tests.dashboard.makers import import_job
from tests.kits.serving import Serving, picture_bytes
from tests.kits.stored import Reported, Row, store

COLOURS = ["tomato", "gold", "teal", "navy", "plum"]
NAMES = ["<script>alert(1)</script>", 'it\'s "quoted"', "$(id)", "=1+1", "قطة 猫🐈"]
N_IMAGES = 150


def make_plain(owner: User) -> Job:
    """150 pictures of two classes, one behind the other; the last of each ten is for validation."""
    return _made(
        owner,
        "Plain",
        ["cat", "dog"],
        [
            Row(
                f"{'cat' if n < 90 else 'dog'}/{n + 1:03}.png",
                "val" if n % 10 == 9 else "train",
                int(n >= 90),
                picture_bytes(300 + n, 200, colour=COLOURS[n % 5]),
                300 + n,
                200,
            )
            for n in range(N_IMAGES)
        ],
        [],
    )


def make_odd(owner: User) -> Job:
    """Names that would do harm or get lost if anybody took them for more than text."""
    rows = [
        Row(f"{name}/<img src=x onerror=alert(1)>.png", "train", label, picture_bytes(32, 32), 32, 32)
        for label, name in enumerate(NAMES)
    ]
    return _made(owner, "<b>Odd</b>", NAMES, rows, [Reported(f"{name}.txt", "refused", name) for name in NAMES])


def _made(owner: User, title: str, classes: list[str], rows: list[Row], report: list[Reported]) -> Job:
    job: Job = import_job(owner, title=title)
    manifest = store(storage().job(job.pk).dataset_dir, classes, rows, report)
    (storage().job(job.pk).dataset_dir / "mean.png").write_bytes(picture_bytes(32, 32))
    artifact = job.artifacts.get()
    artifact.meta |= {
        "n_images": len(rows),
        "n_found": manifest.n_found,
        "n_classes": len(classes),
        "classes": classes,
        "counts": {split: sum(counts) for split, counts in manifest.counts.items()},
        "width_px": manifest.width_px.model_dump(),
        "height_px": manifest.height_px.model_dump(),
        "colour": "rgb",
        "warnings": [{"code": "class.small", "text": f"The class {classes[0]} is small."}],
    }
    artifact.sha256 = manifest.samples_sha256
    artifact.save()
    return job


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    owner = User.objects.create_user("ada", password="x")  # noqa: S106
    client = Client()
    client.force_login(owner)
    made = {"plain": make_plain(owner).pk, "odd": make_odd(owner).pk, "session": client.cookies["sessionid"].value}
    serving = Serving(Path(os.environ["DATA_DIR"]), settings.SERVE_SOCKET)
    settings.SERVE_SOCKET.parent.mkdir(parents=True, exist_ok=True)
    serving.start()
    threading.Thread(target=serve, daemon=True).start()
    sys.stdout.write(json.dumps(made) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    serving.stop()
