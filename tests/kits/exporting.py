"""Exports for tests: jobs, what they left, and a backend of a few lines."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from engine.export.backends import BuildJob, Made
from engine.predict.session import Session
from tests.kits.predicting import IMPORT, Trained
from wire.cards import BackendCard
from wire.exports import ExportReport
from wire.layout import ExportDir, JobDir
from wire.specs import Choice, ExportPrecision, ExportSpec


def export_job(
    done: Trained, backend: str = "fake", precision: ExportPrecision = "fp32", options: Any = None, **changes: Any
) -> JobDir:
    dataset = done.storage.input_path(IMPORT, "artifacts/dataset")
    given = {"checkpoint": done.checkpoint, "dataset": dataset, **changes}
    return done.new_job(ExportSpec(**given, backend=Choice(name=backend, options=options or {}), precision=precision))


def report_of(job: JobDir) -> ExportReport:
    return ExportReport.model_validate_json(ExportDir(job.export_dir).report_path.read_bytes())


class FakeBackend:
    """Writes a file and answers by the network that it was given; ``spoil`` is what goes wrong on the way."""

    wants_graph = False
    session: ClassVar[Session]
    why_not: ClassVar[str] = ""

    def versions(self) -> dict[str, str]:
        return {"fake": "1.0"}

    def build(self, job: BuildJob) -> Made:
        FakeBackend.session = job.session
        job.folder.weights_path.write_bytes(b"weights")
        return Made((("weights", job.folder.weights_path, ""),), notes=("Made of nothing.",))

    def why_not_run(self, folder: ExportDir, device: torch.device) -> str:
        del folder, device
        return self.why_not

    def open(self, folder: ExportDir, device: torch.device) -> FakeRuntime:
        del device
        assert folder.weights_path.read_bytes() == b"weights"
        return FakeRuntime()


class FakeRuntime:
    device = "a fake"
    n_threads = 3
    notes: tuple[str, ...] = ()
    sizes: ClassVar[list[tuple[int, ...]]] = []

    def probabilities(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        from PIL import Image

        self.sizes.append(images_NHWC.shape)
        session = FakeBackend.session
        pixels_NHWC = np.stack([session.pixels(Image.fromarray(image_HWC)) for image_HWC in images_NHWC])
        return self.spoilt(session.probabilities(pixels_NHWC))

    @staticmethod
    def spoilt(shares_NK: NDArray[np.float32]) -> NDArray[np.float32]:
        return shares_NK

    def close(self) -> None: ...


FAKE_CARD = BackendCard(
    name="fake", label="Fake", implementation="tests.kits.exporting:FakeBackend", precisions=("fp32", "fp16")
)
