"""A large upload through everything that may go wrong on the way.

A real server takes a stream of noise from a small tus client. At random points of the stream the connection is closed
(``--cuts``), or the web process is killed with SIGKILL and started again by its supervisor (``--kills``). In the end
the file on the server's disk must have the SHA-256 of what was sent. Speeds count the seconds in which bytes were sent.

    python -m benchmarks.upload [--mb 5000] [--cuts 20] [--kills 3] [--seed 0]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser.stack import Stack, wait_for
from tests.tus import TUS, Answered, TusClient

BLOCK_BYTES = 2**20
NOISE_BYTES = 64 * 2**20


class Noise:
    """A stream of which any stretch can be had again; no two blocks are the same."""

    def __init__(self, n_bytes: int, seed: int) -> None:
        self.n_bytes = n_bytes
        self._noise = random.Random(seed).randbytes(NOISE_BYTES + BLOCK_BYTES)  # noqa: S311

    def blocks(self, begin: int, end: int) -> Iterator[bytes]:
        at = begin
        while at < end:
            n, inside = divmod(at, BLOCK_BYTES)
            taken = min(BLOCK_BYTES - inside, end - at)
            yield self._block(n)[inside : inside + taken]
            at += taken

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for block in self.blocks(0, self.n_bytes):
            digest.update(block)
        return digest.hexdigest()

    def _block(self, n: int) -> bytes:
        begin = n * 7919 * 4096 % NOISE_BYTES
        return hashlib.sha256(b"%d" % n).digest() + self._noise[begin : begin + BLOCK_BYTES - 32]


class Upload:
    """One upload, pushed to its end."""

    def __init__(self, stack: Stack, client: TusClient, noise: Noise) -> None:
        self._stack = stack
        self._client = client
        self._noise = noise
        self.path = client.begin(noise.n_bytes, "noise.bin")
        self.sending_s = 0.0
        self.sent_bytes = 0
        self.n_refused = 0
        self.peak_rss_mb: list[float] = []

    @property
    def file_path(self) -> Path:
        return self._stack.data_dir / "uploads" / self.path.rpartition("/")[2]

    def run(self, events: list[tuple[int, str]]) -> None:
        for at, what in events:
            self._until(at, kill=what == "kill")
        self._until(self._noise.n_bytes)
        self.peak_rss_mb.append(self._peak_rss_mb())

    def _until(self, end: int, *, kill: bool = False) -> None:
        """Send up to this byte, then break off; with ``kill`` the server goes while bytes are on their way."""
        while True:
            offset = wait_for("the server's answer", self._offset)["offset"]
            if offset >= end:
                return
            answer = self._send(offset, end, kill=kill)
            if answer is None:
                return
            if answer.status == 204:
                continue
            # Somebody still writes what was sent before the cut.
            if answer.status not in {409, 423}:
                raise RuntimeError(f"the server said {answer}")
            self.n_refused += 1
            time.sleep(0.2)

    def _send(self, offset: int, end: int, *, kill: bool) -> Answered | None:
        def blocks() -> Iterator[bytes]:
            for block in self._noise.blocks(offset, end):
                yield block
                self.sent_bytes += len(block)
            if kill:
                self._kill()

        began_s = time.monotonic()
        try:
            return self._client.send(self.path, offset, blocks(), n_bytes=self._noise.n_bytes - offset)
        finally:
            self.sending_s += time.monotonic() - began_s

    def _kill(self) -> None:
        self.peak_rss_mb.append(self._peak_rss_mb())
        began_s = time.monotonic()
        self._stack.kill_program("web")
        self.sending_s -= time.monotonic() - began_s

    def _offset(self) -> dict[str, int] | None:
        try:
            answer = self._client.call("HEAD", self.path, TUS)
        except OSError:
            return None
        return {"offset": int(answer.headers["upload-offset"])} if answer.status == 200 else None

    def _peak_rss_mb(self) -> float:
        return peak_rss_mb(self._stack.pid_of("web"))


def peak_rss_mb(pid: int) -> float:
    """The most memory that a process has held; Linux counts in 1024 bytes."""
    told = Path(f"/proc/{pid}/status").read_text()
    return int(told.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def measure(*, n_bytes: int, n_cuts: int, n_kills: int, seed: int) -> dict[str, Any]:
    dice = random.Random(seed)  # noqa: S311
    events = sorted(
        (dice.randrange(1, n_bytes), what) for what, n in (("cut", n_cuts), ("kill", n_kills)) for _ in range(n)
    )
    noise = Noise(n_bytes, seed)
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder) / "data") as stack:
        token = stack.manage("token_for", "ada", "--create").strip()
        client = TusClient(stack.address, token, timeout_s=120)
        idle_rss_mb = peak_rss_mb(stack.pid_of("web"))
        began_s = time.monotonic()
        upload = Upload(stack, client, noise)
        upload.run(events)
        wall_s = time.monotonic() - began_s
        with upload.file_path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "mb": round(n_bytes / 1e6),
        "cuts": n_cuts,
        "kills": n_kills,
        "sha256_equal": found == noise.sha256(),
        "mb_per_s": round(upload.sent_bytes / 1e6 / upload.sending_s, 1),
        "wall_s": round(wall_s, 1),
        "sent_again_mb": round((upload.sent_bytes - n_bytes) / 1e6, 1),
        "refused_while_the_last_piece_was_written": upload.n_refused,
        "web_idle_rss_mb": round(idle_rss_mb),
        "web_peak_rss_mb": round(max(upload.peak_rss_mb)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=5000)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found = measure(n_bytes=arguments.mb * 10**6, n_cuts=arguments.cuts, n_kills=arguments.kills, seed=arguments.seed)
    print(json.dumps(found, indent=2))
    if not found["sha256_equal"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
