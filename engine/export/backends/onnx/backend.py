"""The ONNX graph itself, run by ONNX Runtime."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Final, cast

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from engine.device import n_physical_cores
from engine.export.backends import BuildJob, Made
from engine.export.backends.files import write_whole
from engine.export.backends.naming import device_name, gpu_versions
from wire.errors import OperatorRefused
from wire.layout import ExportDir

_FATAL: Final = 4
"""Of ONNX Runtime's levels of severity: what is not fatal is raised, and need not be printed too."""
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_OPERATOR: Final = re.compile(
    r"No Op registered for (?P<unknown>\S+)"
    r"|Fatal error: (?P<foreign>[^\s(]+)\(-?\d+\) is not a registered"
    r"|Could not find an implementation for (?P<unwritten>[^\s(]+)"
)
_states = onnxruntime.capi.onnxruntime_pybind11_state
_REFUSALS: Final = (_states.Fail, _states.InvalidGraph, _states.InvalidProtobuf, _states.NotImplemented)


class OnnxBackend:
    wants_graph: Final = True

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("onnx", "onnxruntime")} | gpu_versions()

    def build(self, job: BuildJob) -> Made:
        assert job.graph is not None  # noqa: S101 - wants_graph
        path = write_whole(job.folder.model_path, job.graph)
        # A graph that cannot be opened is refused here, before anything is asked of it.
        self.open(job.folder, torch.device("cpu")).close()
        return Made((("model", path, ""),))

    def why_not_run(self, folder: ExportDir, device: torch.device) -> str:
        del folder, device
        return ""

    def open(self, folder: ExportDir, device: torch.device) -> OnnxRuntime:
        return OnnxRuntime(folder, device)


class OnnxRuntime:
    """On the GPU where one is asked for and this installation of ONNX Runtime can use it, else on the processor."""

    def __init__(self, folder: ExportDir, device: torch.device) -> None:
        on_gpu = device.type == "cuda" and _CUDA in onnxruntime.get_available_providers()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = n_physical_cores()
        options.log_severity_level = _FATAL
        # Processors without VNNI add up products of INT8 in 16 bits, which overflows unless this is set.
        options.add_session_config_entry("session.x64quantprecision", "1")
        gpu = [(_CUDA, {"device_id": device.index or 0})] if on_gpu else []
        try:
            self._session = onnxruntime.InferenceSession(str(folder.model_path), options, providers=[*gpu, _CPU])
        except _REFUSALS as error:
            raise _refused(str(error)) from error
        # Where CUDA's libraries are absent it falls back by itself.
        on_gpu = on_gpu and _CUDA in self._session.get_providers()
        self.device = device_name(device if on_gpu else torch.device("cpu"))
        self.n_threads = 0 if on_gpu else n_physical_cores()
        fell_back = device.type == "cuda" and not on_gpu
        self.notes: tuple[str, ...] = (
            ("Ran on the processor: this installation of ONNX Runtime cannot use the GPU.",) if fell_back else ()
        )

    def probabilities(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        (shares_NK,) = self._session.run(["probabilities"], {"images": images_NHWC})
        return cast("NDArray[np.float32]", shares_NK)

    def close(self) -> None:
        del self._session


def _refused(text: str) -> OperatorRefused:
    hint = "Choose another target, or train a model without it."
    if found := _OPERATOR.search(text):
        return OperatorRefused(f"ONNX Runtime does not know the operator {found[found.lastgroup or 0]}.", hint=hint)
    reason = text.partition(" failed:")[2] or text
    return OperatorRefused(f"ONNX Runtime refuses the graph: {reason.strip().partition(chr(10))[0][:300]}", hint=hint)
