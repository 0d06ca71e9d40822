"""A real ``python -m engine serve`` for tests, and things for it to look at.

Tests of pages and of the API take the fixture ``serve`` (tests/conftest.py): one process for the whole session over
``DATA_DIR``, which ``dashboard.serving`` finds by itself; a test may ``kill()`` it, the next one gets a new one. A test
with a root of its own makes ``Serving(root, socket_path)``, calls ``start()`` and, at its end, ``stop()``.

    def test_a_page(serve, api, user):
        job = import_job(user)
        write_dataset(storage().job(job.pk).dataset_dir, [("train", 0, picture_bytes())])

``write_checkpoint`` and ``write_onnx_export`` import torch: mark such a test slow.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image

from engine.store.writer import DatasetWriter, NewSample
from tests.surroundings import shared_processes, until
from wire.layout import ExportDir
from wire.manifests import DatasetManifest, SizeRange, SplitName
from wire.serving import JSON_BYTES_HEADER

PROJECT_DIR = Path(__file__).resolve().parent.parent.parent


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, socket_path: Path) -> None:
        super().__init__("serve", timeout=60)
        self._socket_path = socket_path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(self._socket_path))


class Serving:
    """One process, which a test may kill and start again."""

    def __init__(self, root: Path, socket_path: Path, *arguments: str) -> None:
        self.root = root
        self.socket_path = socket_path
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_path(self) -> Path:
        return self.socket_path.with_suffix(".log")

    def start(self) -> None:
        where = ["--root", str(self.root), "--socket", str(self.socket_path)]
        with self.log_path.open("ab") as log, shared_processes():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine", "serve", *where, *self._arguments],
                cwd=PROJECT_DIR,
                stdout=log,
                stderr=log,
            )
        until(self.answers)

    def answers(self) -> bool:
        assert self.running, self.log_path.read_text()
        try:
            return self._asked("GET", "/health", b"", {})[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end; returns its exit status, 0 where it never ran."""
        if self._process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def ask(self, what: str, asked: dict[str, Any], *images: bytes) -> tuple[int, bytes, str]:
        """Status, body and type of the answer."""
        text = json.dumps(asked).encode()
        return self._asked("POST", f"/{what}", text + b"".join(images), {JSON_BYTES_HEADER: str(len(text))})

    def _asked(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, str]:
        connection = UnixConnection(self.socket_path)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(), response.headers.get_content_type()
        finally:
            connection.close()


def picture_bytes(width: int = 40, height: int = 30, *, kind: str = "PNG", colour: str = "tomato") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, kind)
    return file.getvalue()


def write_dataset(path: Path, samples: Sequence[tuple[SplitName, int, bytes]], *, n_classes: int = 2) -> None:
    """A dataset of encoded images, as an import leaves it; ids count from 1 in the given order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    some = SizeRange(min=1, median=1, max=1)
    with DatasetWriter(path) as writer:
        for index, (split, label, data) in enumerate(samples):
            width, height = _size(data)
            writer.add(NewSample(f"class-{label}/{index}.png", split, label, width, height, data))
        counts: dict[SplitName, list[int]] = {}
        for split, label, n_images in writer.tally():
            counts.setdefault(split, [0] * n_classes)[label] = n_images
        manifest = DatasetManifest(
            name="made by a test",
            task="classification",
            classes=tuple(f"class-{label}" for label in range(n_classes)),
            counts={split: tuple(of_split) for split, of_split in counts.items()},
            width_px=some,
            height_px=some,
            colour="rgb",
            mean=(0.5, 0.5, 0.5),
            std=(0.25, 0.25, 0.25),
            image_bytes=writer.image_bytes,
            samples_sha256=writer.samples_sha256(),
            source={"kind": "test"},
            n_found=writer.n_samples,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        writer.finish(manifest)


def write_checkpoint(
    path: Path, *, model: str = "lenet5", image_px: int = 32, n_classes: int = 3, colour: str = "rgb"
) -> str:
    """A checkpoint with weights as they are drawn; returns its hash."""
    import torch

    from engine.catalog import model_cards
    from engine.checkpoint import write_durable

    card = model_cards()[model]
    options = card.options()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = card.load().build(
            n_classes=n_classes, in_channels=1 if colour == "grey" else 3, image_px=image_px, options=options
        )
    payload = {
        "network": network.state_dict(),
        "classes": [f"class-{label}" for label in range(n_classes)],
        "image_px": image_px,
        "resize": "squash",
        "colour": colour,
        "mean": [0.5, 0.5, 0.5],
        "std": [0.25, 0.25, 0.25],
        "model": model,
        "model_options": options.model_dump(mode="json"),
        "task": "classification",
        "step": 10,
        "precision": "fp32",
    }
    return write_durable(payload, path, scratch_dir=path.parent / "scratch").sha256


def write_onnx_export(folder: ExportDir, checkpoint_path: Path, **changes: Any) -> str:
    """What an export of that checkpoint leaves, its model a true one; returns the hash of its report."""
    from engine.export.graph import save_model, whole_model
    from engine.export.network import network_model
    from engine.predict.session import Session
    from tests.kits.exported import write_export_folder  # knows the database, which browser tests must not load

    session = Session.open(checkpoint_path)
    facts = {name: getattr(session, name) for name in ("classes", "image_px", "resize", "colour", "mean", "std")}
    report = write_export_folder(folder, **facts | changes)
    save_model(whole_model(network_model(session, "fp32"), session), folder.model_path)
    sha256 = hashlib.sha256(folder.model_path.read_bytes()).hexdigest()
    files = [file.model_copy(update={"sha256": sha256} if file.role == "model" else {}) for file in report.files]
    folder.report_path.write_text(report.model_copy(update={"files": tuple(files)}).model_dump_json())
    return hashlib.sha256(folder.report_path.read_bytes()).hexdigest()


def _size(data: bytes) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.size
    except OSError:
        return 1, 1
