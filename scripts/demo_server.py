"""The server that the demo talks to: the one that runs, or one started for it; and its HTTP API."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any

PROJECT_DIR = Path(__file__).resolve().parent.parent
MANAGE = (sys.executable, str(PROJECT_DIR / "manage.py"))
DATA_DIR = Path(os.environ.get("DATA_DIR") or PROJECT_DIR / "var").expanduser().resolve()
START_PATIENCE_S = 120
PIECE_BYTES = 8 * 2**20


class DemoError(Exception):
    """Said as it is; the demo ends with exit code 1."""


class Unreachable(DemoError):
    """Nobody answers at the address."""


class Server:
    """The HTTP API of one server."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self._token = token

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, body: object) -> Any:
        return self._call("POST", path, json.dumps(body).encode())

    def upload(self, path: Path, tell: Callable[[int, int], None]) -> str:
        """Bring a file, as any tus 1.0 client does; returns the upload's id."""
        size = path.stat().st_size
        metadata = f"filename {b64encode(path.name.encode()).decode()}"
        begun = {"Tus-Resumable": "1.0.0", "Upload-Length": str(size), "Upload-Metadata": metadata}
        _, answered = self._exchange("POST", "/uploads/", None, begun)
        upload_id = str(answered["Location"]).rsplit("/", 1)[-1]
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                at = {"Upload-Offset": str(file.tell() - len(piece)), "Content-Type": "application/offset+octet-stream"}
                self._exchange("PATCH", f"/uploads/{upload_id}", piece, at | {"Tus-Resumable": "1.0.0"})
                tell(file.tell(), size)
        return upload_id

    def download(self, path: str, to: Path) -> None:
        """Beside first, so that no half of a file has the name of a whole one."""
        request = urllib.request.Request(  # noqa: S310
            f"{self.address}api/v1{path}", headers={"Authorization": f"Bearer {self._token}"}
        )
        beside = to.with_name(f"{to.name}.part")
        try:
            with urllib.request.urlopen(request, timeout=600) as response, beside.open("wb") as file:  # noqa: S310
                shutil.copyfileobj(response, file)
        except urllib.error.HTTPError as answer:
            raise DemoError(f"GET {path}: {_explain(answer)}") from None
        except OSError as problem:
            raise Unreachable(f"{path} did not arrive: {problem}.") from None
        beside.replace(to)

    def _call(self, method: str, path: str, body: bytes | None) -> Any:
        content, _ = self._exchange(method, path, body, {"Content-Type": "application/json"})
        return json.loads(content)

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[bytes, Message]:
        """The answer's body and its headers."""
        headers = {"Authorization": f"Bearer {self._token}", **headers}
        request = urllib.request.Request(f"{self.address}api/v1{path}", body, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310  an http address of our own
                return response.read(), response.headers
        except urllib.error.HTTPError as answer:
            raise DemoError(f"{method} {path}: {_explain(answer)}") from None
        except OSError as problem:
            raise Unreachable(f"{self.address} does not answer: {problem}.") from None


def _explain(answer: urllib.error.HTTPError) -> str:
    text = answer.read().decode(errors="replace")
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return f"{answer.code} {text[:500]}"
    return " ".join(part for part in (error["message"], error.get("hint")) if part)


def running_address() -> str | None:
    """Where a server with this ``DATA_DIR`` answers, if one does."""
    try:
        address = str(json.loads((DATA_DIR / "run" / "state.json").read_text())["address"])
        with urllib.request.urlopen(f"{address}healthz", timeout=5):  # noqa: S310
            return address
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def server() -> Iterator[Server]:
    """The running server, or one that lives as long as the demo."""
    if address := running_address():
        yield Server(address, token())
        return
    with tempfile.TemporaryFile("w+") as output:
        up = subprocess.Popen([*MANAGE, "up"], stdout=output, stderr=output, start_new_session=True)
        try:
            print("Starting a server for the demo ...", flush=True)
            yield Server(_wait_for_start(up, output), token())
        finally:
            if up.poll() is None:
                print("Stopping it ...", flush=True)
                up.send_signal(signal.SIGINT)
            up.wait()


def _wait_for_start(up: subprocess.Popen[bytes], output: Any) -> str:
    deadline = time.monotonic() + START_PATIENCE_S
    while not (address := running_address()):
        if up.poll() is not None or time.monotonic() > deadline:
            output.seek(0)
            raise DemoError(output.read().strip() or "the server did not start")
        time.sleep(0.2)
    return address


def token() -> str:
    command = [*MANAGE, "token_for", "demo", "--create", "--name", "demo"]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode:
        raise DemoError(made.stderr.strip())
    return made.stdout.strip()
