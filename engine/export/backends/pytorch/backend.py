"""Weights as safetensors, with all that it takes to use them, as JSON, in the file's metadata."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save

from engine.export.backends import BuildJob, Made
from engine.export.backends.files import write_whole
from engine.export.backends.naming import device_name, gpu_versions
from engine.export.backends.pytorch.header import sorted_header
from engine.predict.session import Session
from wire.layout import ExportDir

DESCRIPTION_KEYS: Final = (
    "task",
    "model",
    "model_options",
    "classes",
    "image_px",
    "resize",
    "colour",
    "mean",
    "std",
    "step",
)
"""Entries of the metadata, each a JSON value; what they mean stands in ``engine.predict.session.Session``."""


class PyTorchBackend:
    wants_graph: Final = False

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("torch", "safetensors")} | gpu_versions()

    def build(self, job: BuildJob) -> Made:
        session = job.session
        # Copies: entries that share their memory are refused by the format, and channels last is not kept in it.
        state = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in session.network.state_dict().items()
        }
        metadata = {key: json.dumps(getattr(session, key), ensure_ascii=False) for key in DESCRIPTION_KEYS}
        data = sorted_header(save(state, {"format": "pt", **metadata}))
        return Made((("weights", write_whole(job.folder.weights_path, data), ""),))

    def why_not_run(self, folder: ExportDir, device: torch.device) -> str:
        del folder
        return "no CUDA device" if device.type == "cuda" and not torch.cuda.is_available() else ""

    def open(self, folder: ExportDir, device: torch.device) -> PyTorchRuntime:
        return PyTorchRuntime(folder, device)


class PyTorchRuntime:
    """The network rebuilt from the file alone, in fp32; pictures are made small by ``engine.data.resize``."""

    notes: Final[tuple[str, ...]] = ()

    def __init__(self, folder: ExportDir, device: torch.device) -> None:
        with safe_open(folder.weights_path, framework="pt") as file:
            metadata = file.metadata()
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dictionary
        payload: dict[str, Any] = {key: json.loads(metadata[key]) for key in DESCRIPTION_KEYS}
        self._session = Session.of({**payload, "precision": "fp32", "network": state}, device)

    @property
    def device(self) -> str:
        return device_name(self._session.device)

    @property
    def n_threads(self) -> int:
        return 0 if self._session.device.type == "cuda" else torch.get_num_threads()

    def probabilities(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        pixels = [self._session.pixels(Image.fromarray(image_HWC)) for image_HWC in images_NHWC]
        return self._session.probabilities(np.stack(pixels))

    def close(self) -> None:
        del self._session
