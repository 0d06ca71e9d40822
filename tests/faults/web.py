"""The web process as it is started for people, and a client of it that notes what it was answered."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from jobs.services import token_create
from tests.browser.stack import free_port
from tests.surroundings import until


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_patient(self) -> bool:
        """Says that it cannot now, why, and when to come again."""
        return self.status == 503 and int(self.headers["retry-after"]) > 0


class Web:
    """One uvicorn process; a test may kill it and start it again at the same port."""

    def __init__(self, owner: User) -> None:
        self.port = free_port()
        _, self.token = token_create(owner, "client")
        self.statuses: Counter[int] = Counter()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        return Path(settings.DATA_DIR) / "web.txt"

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(self.port)]
        command += ["--ws", "websockets-sansio", "--lifespan", "off", "--log-level", "warning"]
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stdout=log, stderr=log)
        until(self._answers)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.call("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})

    def call(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            told = {"Authorization": f"Bearer {self.token}", **(headers or {})}
            connection.request(method, path, body, told)
            response = connection.getresponse()
            self.statuses[response.status] += 1
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_path.read_text()
        try:
            return self.get("/healthz").status == 200
        except OSError:
            return False


@contextmanager
def served(owner: User) -> Iterator[Web]:
    web = Web(owner)
    web.start()
    try:
        yield web
    finally:
        web.kill()
        log = web.log_path.read_text()
        web.log_path.unlink()
        # What was answered in words is no fault of ours.
        assert "Traceback" not in log, log
