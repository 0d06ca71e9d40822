"""Train on the bundled digits through the HTTP API, on the running server or on one started for this.

EPOCHS, MODEL and SEED override what the server plans for the dataset. DATA_DIR names the server, as for ``make run``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT_DIR = Path(__file__).resolve().parent.parent
MANAGE = (sys.executable, str(PROJECT_DIR / "manage.py"))
DATA_DIR = Path(os.environ.get("DATA_DIR") or PROJECT_DIR / "var").expanduser().resolve()
START_PATIENCE_S = 120
RESTART_PATIENCE_S = 60
POLL_S = 0.5
ENDED = {"succeeded", "failed", "errored", "cancelled"}


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

    def _call(self, method: str, path: str, body: bytes | None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}api/v1{path}", body, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310  an http address of our own
                return json.load(response)
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


def digits(api: Server) -> int:
    """Id of the import of the digits; done again only where there is none."""
    source = {"kind": "sample", "name": "digits"}
    for dataset in api.get("/datasets?status=succeeded"):
        if api.get(f"/jobs/{dataset['id']}/spec")["source"] == source:
            return int(dataset["id"])
    made = api.post("/datasets", {"name": "Digits", "source": source})
    wait_for(api, made["id"], "import")
    return int(made["id"])


def overrides() -> dict[str, int]:
    """Training options that the environment sets."""
    variables = {"EPOCHS": "epochs", "SEED": "seed"}
    return {option: _whole_number(name) for name, option in variables.items() if os.environ.get(name)}


def train(api: Server, dataset_id: int, options: dict[str, int]) -> int:
    """Start a run with the planned options, but for those given, and return its id."""
    model = os.environ.get("MODEL", "")
    wish = api.get(f"/trainings/defaults?dataset={dataset_id}&model={model}")["request"]
    wish["options"] |= options
    wish["title"] = f"Demo: {wish['model']['name']}, {wish['options']['epochs']} epochs"
    return int(api.post("/trainings", wish)["id"])


def _whole_number(variable: str) -> int:
    value = os.environ[variable]
    try:
        return int(value)
    except ValueError:
        raise DemoError(f"{variable}={value} is not a whole number.") from None


def wait_for(api: Server, job_id: int, what: str) -> Any:
    """Print a job's progress until it ends, and give its last summary."""
    said = ""
    answered_at = time.monotonic()
    while True:
        try:
            job = api.get(f"/jobs/{job_id}")
        except Unreachable:
            # Trainings outlive the web server, which may be back in a moment.
            if time.monotonic() - answered_at > RESTART_PATIENCE_S:
                raise
            time.sleep(POLL_S)
            continue
        answered_at = time.monotonic()
        line = _progress(job, what)
        if line != said:
            _show(line)
            said = line
        if job["status"] in ENDED:
            break
        time.sleep(POLL_S)
    print(flush=True)
    if job["status"] != "succeeded":
        error = job["error"] or {"message": f"it is {job['status']}", "hint": ""}
        raise DemoError(f"The {what} did not succeed: {error['message']} {error['hint']}".rstrip())
    return job


def _progress(job: Any, what: str) -> str:
    parts = [f"{what}: {job['status']}"]
    # In a file one line an epoch is enough.
    if sys.stdout.isatty() and job["progress"] is not None and job["status"] not in ENDED:
        parts.append(f"{job['progress']:.0%}")
    if job["epoch"] is not None:
        parts.append(f"epoch {job['epoch']} of {job['epochs']}")
    if job["best"]:
        parts.append(f"best {job['best']['series']} {job['best']['value']:.4g}")
    if job["wait_reason"]:
        parts.append(job["wait_reason"])
    return ", ".join(parts)


def _show(line: str) -> None:
    # On a terminal the line is rewritten; in a file each one is kept.
    print(f"\r\033[K{line}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)


def main() -> None:
    options = overrides()
    with server() as api:
        run_id = train(api, digits(api), options)
        run_url = f"{api.address}runs/{run_id}/"
        print(run_url, flush=True)
        best = wait_for(api, run_id, "training")["best"]
        print(f"accuracy: {best['value']:.2f} %")
        print(f"run: {run_url}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except DemoError as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
