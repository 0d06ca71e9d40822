"""A whole installation for a benchmark: ``manage.py up`` on SQLite or PostgreSQL, with devices that are none.

A machine has one slot for trainings on its processor. To have several at once, rows of devices are made that nothing
stands behind: a training that takes the first free one computes on the processor all the same.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.browser.stack import Stack, wait_for
from tests.faults.cluster import Cluster

Database = Literal["sqlite", "postgresql"]
ENDED = {"succeeded", "failed", "errored", "cancelled"}

_DEVICES = """
from datetime import timedelta
from django.utils import timezone
from jobs.host import host_name
from jobs.models import Device
# Seen in time to come, so that nobody takes them for gone.
seen_at = timezone.now() + timedelta(days=1)
for n in range({n}):
    uuid, name = f"bench-{{n}}", f"Bench {{n}}"
    Device.objects.create(host=host_name(), kind="cuda", uuid=uuid, name=name, seen_at=seen_at)
"""
_SESSION = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
user = User.objects.get(username="ada")
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
print(session.session_key)
"""
_CHECK = """
from jobs.models import Job
from tests.faults.history import check_attempts, check_events, check_transitions
for job in Job.objects.filter(pk__in={ids}):
    check_events(job)
    check_transitions(job)
    check_attempts(job)
"""


class Installation:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.token = stack.manage("token_for", "ada", "--create").strip().splitlines()[-1]

    def make_devices(self, n: int) -> None:
        self._shell(_DEVICES.format(n=n))

    def session(self) -> str:
        """The cookie of a browser that is signed in."""
        return self._shell(_SESSION)

    def check_whole(self, ids: list[int]) -> None:
        """That rows and files of these jobs tell one story without a hole.

        Raises:
            subprocess.CalledProcessError: they do not; its output says where.
        """
        self._shell(_CHECK.format(ids=ids))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text) if text else None

    def job(self, job_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/jobs/{job_id}")
        return found

    def import_digits(self) -> int:
        wish = {"name": "Digits", "source": {"kind": "sample", "name": "digits"}}
        job_id: int = self.call("POST", "/datasets", wish)["id"]
        wait_for("the dataset", lambda: self.job(job_id)["status"] == "succeeded")
        return job_id

    def train(self, dataset: int, title: str = "", **options: Any) -> int:
        wish: dict[str, Any] = self.call("GET", f"/trainings/defaults?dataset={dataset}&model=lenet5")["request"]
        wish |= {"title": title, "options": wish["options"] | options}
        job_id: int = self.call("POST", "/trainings", wish)["id"]
        return job_id

    def until_running(self, ids: list[int]) -> None:
        wait_for("all trainings", lambda: all(self.job(job_id)["done"] for job_id in ids), patience_s=300)

    def until_ended(self, ids: list[int], *, patience_s: float) -> None:
        wait_for("the end", lambda: all(self.job(job_id)["status"] in ENDED for job_id in ids), patience_s=patience_s)
        # Supervisors still tidy up.
        time.sleep(2)

    def _shell(self, script: str) -> str:
        return self.stack.manage("shell", "-v", "0", "-c", script).strip()


@contextmanager
def installed(database: Database = "sqlite", **settings: str) -> Iterator[Installation]:
    """Running, and gone without a trace afterwards; ``settings`` go into its environment."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        if database == "postgresql":
            cluster = Cluster(durable=True)
            ending.callback(cluster.remove)
            cluster.execute("CREATE DATABASE fovea")
            settings["DATABASE_URL"] = cluster.url("fovea")
        stack = ending.enter_context(Stack(folder / "data", **settings))
        yield Installation(stack)
