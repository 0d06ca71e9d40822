"""From written by the trainer to drawn in the browser, through the whole product.

A scripted engine states a fact; the real supervisor records and publishes it, the real web process sends it, a real
Chromium draws it with plotly. One page is drawn, nine more sockets listen. For every log point: the time stamped into
its envelope, against the first animation frame after the chart board has drawn up to its ``seq``. One clock: all of it
runs on one machine.

    python -m benchmarks.event_latency [--points 600] [--hz 5] [--beside-training]

``--beside-training`` runs a real CPU training in a process of its own at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import websockets
from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM_FLAGS, chromium_path
from tests.browser.pages import import_sample, set_up, start_training
from tests.browser.stack import Stack, wait_for

N_LISTENERS = 9
NOTE_FRAMES = """() => {
  window.frames_seen = [];
  document.addEventListener("fovea:drawn", ({ detail }) => {
    requestAnimationFrame(() => window.frames_seen.push([detail.seq, performance.timeOrigin + performance.now()]));
  });
}"""


def measure(*, n_points: int, hz: float, beside_training: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = shlex.join([sys.executable, "-m", "benchmarks.scripted_engine"])
        scripted = {"ENGINE_COMMAND": command, "SCRIPTED_POINTS": str(n_points), "SCRIPTED_HZ": str(hz)}
        with Stack(Path(folder) / "data", **scripted) as stack:
            chromium = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_FLAGS)
            page = chromium.new_page(viewport={"width": 1440, "height": 900})
            set_up(page, stack.address, stack.setup_code)
            import_sample(page)
            with _training(stack) if beside_training else contextlib.nullcontext():
                job_id = start_training(page, epochs="1")
                page.wait_for_selector("[data-connection=live]")
                page.evaluate(NOTE_FRAMES)
                with _listeners(stack, page, job_id) as received:
                    wait_for("the last event", lambda: _ended(stack, job_id), patience_s=n_points / hz + 60)
                    page.wait_for_timeout(2000)
            frames = page.evaluate("() => window.frames_seen")
            events = stack.events(job_id)
            chromium.close()
    return _summary(events, frames, received)


def _ended(stack: Stack, job_id: int) -> bool:
    return any(envelope["event"]["kind"] == "run.ended" for envelope in stack.events(job_id)[-1:])


def _summary(events: list[dict[str, Any]], frames: list[list[float]], received: list[int]) -> dict[str, Any]:
    seqs = np.array([seq for seq, _ in frames])
    drawn_ms = np.array([at for _, at in frames])
    latencies_ms = []
    for envelope in events:
        if envelope["event"]["kind"] != "scalars":
            continue
        first = int(np.searchsorted(seqs, envelope["seq"]))
        written_ms = datetime.fromisoformat(envelope["at"]).timestamp() * 1000
        latencies_ms.append(float(drawn_ms[first]) - written_ms)
    p50, p95, p99 = np.percentile(latencies_ms, [50, 95, 99])
    return {
        "points": len(latencies_ms),
        "draws": len(frames),
        "p50_ms": round(float(p50)),
        "p95_ms": round(float(p95)),
        "p99_ms": round(float(p99)),
        "max_ms": round(max(latencies_ms)),
        "events": len(events),
        "received_by_listeners": received,
    }


@contextlib.contextmanager
def _listeners(stack: Stack, page: Page, job_id: int) -> Iterator[list[int]]:
    """Nine more sockets on the same run; afterwards, how many events each was sent."""
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
    received = [0] * N_LISTENERS
    loop = asyncio.new_event_loop()

    async def listen(index: int) -> None:
        url = f"ws://127.0.0.1:{stack.port}/ws/jobs/{job_id}/?after=0"
        headers = {"Cookie": cookie, "Origin": stack.address}
        with contextlib.suppress(websockets.ConnectionClosed):
            async with websockets.connect(url, additional_headers=headers) as connection:
                async for text in connection:
                    received[index] += len(json.loads(text).get("events", ()))

    async def listen_all() -> None:
        await asyncio.gather(*(listen(index) for index in range(N_LISTENERS)))

    task = loop.create_task(listen_all())
    thread = threading.Thread(target=_run, args=(loop, task), daemon=True)
    thread.start()
    try:
        yield received
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)


@contextlib.contextmanager
def _training(stack: Stack) -> Iterator[None]:
    """A real training of the same dataset, from a shell as it were."""
    folder = stack.data_dir / "jobs" / "900000"
    folder.mkdir()
    spec = {
        "verb": "train",
        "dataset": "../1/artifacts/dataset",
        "model": {"name": "resnet20"},
        "options": {"epochs": 10_000, "colour": "grey"},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "engine", "train", "--dir", str(folder)]
    environment = {**stack.environment, "FOVEA_NICE": "5"}  # as a supervisor starts it
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        wait_for("the training's first epoch", lambda: b"epoch" in (folder / "log.txt").read_bytes())
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=600)
    parser.add_argument("--hz", type=float, default=5.0)
    parser.add_argument("--beside-training", action="store_true")
    arguments = parser.parse_args()
    found = measure(n_points=arguments.points, hz=arguments.hz, beside_training=arguments.beside_training)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
