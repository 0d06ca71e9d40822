"""A bundle whose models are real: a small network that was never trained, built by the engine's own backends."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor.utils  # the conversion imports it, and it sets a variable: not inside a test
from PIL import Image

from engine.bundle.contents import Entry, RunFacts, bundle
from engine.catalog import backend_cards, find_card, model_cards
from engine.data.normalise import channel_values
from engine.export.backends import BuildJob
from engine.export.graph import model_bytes, whole_model
from engine.export.network import network_model
from engine.predict.session import Session
from tests.kits.exported import write_export_folder
from wire.exports import ExportedFile, GoldenImage, Passed
from wire.layout import ExportDir
from wire.specs import Choice, TrainSpec

CLASSES = ("a cat", "=dog", "b\nird", "owl")


def new_session(*, model: str = "lenet5", colour: str = "rgb", resize: str = "squash", image_px: int = 32) -> Session:
    """With weights drawn anew, and a head that is not undecided."""
    card = find_card(model_cards(), model, what="model")
    torch.manual_seed(0)
    n_channels = 1 if colour == "grey" else 3
    network = card.load().build(
        n_classes=len(CLASSES), in_channels=n_channels, image_px=image_px, options=card.options()
    )
    state = network.state_dict()
    state["head.weight"] *= 8
    payload: dict[str, Any] = {
        "task": "classification", "model": model, "model_options": {}, "classes": list(CLASSES), "image_px": image_px,
        "resize": resize, "colour": colour, "mean": [0.48, 0.45, 0.41], "std": [0.23, 0.22, 0.24], "step": 40,
        "precision": "fp32", "network": state,
    }  # fmt: skip
    return Session.of(payload, torch.device("cpu"))


class Never:
    """A stop that nobody asks for."""

    asked = False


def export(folder: ExportDir, session: Session, backend: str, graph: bytes | None) -> Entry:
    """Weights and ONNX are what the backends make; of engines the graph is real and the engine is not."""
    folder.path.mkdir(parents=True)
    job = BuildJob(
        session=session, precision="fp32", graph=graph, folder=folder, options={}, stop=Never(), tell=lambda _: None
    )
    if backend == "tensorrt_rtx":
        folder.model_path.write_bytes(graph or b"")
        folder.engine_path("8.9").parent.mkdir()
        folder.engine_path("8.9").write_bytes(b"an engine")
        files = [("source", folder.model_path, ""), ("engine", folder.engine_path("8.9"), "8.9")]
    else:
        files = list(backend_cards()[backend].load()().build(job).files)
    golden = _golden(folder, session)
    files += [("golden", folder.path / each.path, "") for each in golden]
    n_channels = 1 if session.colour == "grey" else 3
    report = write_export_folder(
        ExportDir(folder.path / "beside"), backend=backend, classes=CLASSES, model=Choice(name=session.model),
        image_px=session.image_px, resize=session.resize, colour=session.colour,
        mean=channel_values(session.mean, n_channels), std=channel_values(session.std, n_channels),
        golden=tuple(golden), files=tuple(_file(folder, *each) for each in files), verdict=Passed(),
    )  # fmt: skip
    return Entry(report, folder, Passed())


def exports(root: Path, session: Session, *backends: str) -> list[Entry]:
    is_needed = set(backends) != {"pytorch"}
    graph = model_bytes(whole_model(network_model(session, "fp32"), session)) if is_needed else None
    return [export(ExportDir(root / backend), session, backend, graph) for backend in backends]


def _golden(folder: ExportDir, session: Session) -> list[GoldenImage]:
    draw = np.random.default_rng(0)
    made = []
    for n, (height, width) in enumerate([(40, 60), (90, 30)], 1):
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8))
        folder.golden_path(n).parent.mkdir(exist_ok=True)
        image.save(folder.golden_path(n))
        shares = session.probabilities(session.pixels(image)[None])[0].tolist()
        path = folder.golden_path(n).relative_to(folder.path).as_posix()
        made.append(GoldenImage(path=path, label=0, name="x", probabilities=shares, tolerance=1e-4, is_measured=True))
    return made


def _file(folder: ExportDir, role: Any, path: Path, capability: str) -> ExportedFile:
    data = path.read_bytes()
    return ExportedFile(
        role=role, path=path.relative_to(folder.path).as_posix(), sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data), crc32=zlib.crc32(data), compute_capability=capability,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A bundle as it lies on somebody's disk."""

    path: Path

    def command(self, program: str, *arguments: str) -> list[str]:
        """With what is installed here, and without this checkout."""
        return [sys.executable, "-E", "-s", "-B", program, *arguments]

    @property
    def environment(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "OMP_NUM_THREADS"}}

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(program, *arguments),
            cwd=self.path, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip


def unpacked(root: Path, entries: Sequence[Entry]) -> Unpacked:
    """As its archive is unpacked below ``root``, where that lies, too."""
    model = entries[0].report.model
    recipe = TrainSpec(dataset="../1/artifacts/dataset", model=model)
    contents = bundle(entries, RunFacts(id=7, title="Owls", recipe=recipe, model=model_cards()[model.name]))
    archive = root / "bundle.zip"
    archive.write_bytes(b"".join(contents.stream()))
    with zipfile.ZipFile(archive) as read:
        read.extractall(root / "unpacked")
    return Unpacked(root / "unpacked" / contents.name)
