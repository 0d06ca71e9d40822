"""Runs an engine of this bundle on the GPU that is here. Needs tensorrt_rtx, and torch for the GPU's memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

HERE = Path(__file__).resolve().parent
LEAST_SCRATCH_BYTES = 256


class WhyNot(Exception):
    """The engine cannot be run here; says why."""


class Engine:
    def __init__(self, model: dict[str, Any]) -> None:
        """``model`` is an entry of ``models`` in ``bundle.json``.

        Raises:
            WhyNot: TensorRT for RTX, torch or a GPU is missing, or no engine of it loads on this GPU.
        """
        missing = [name for name in ("tensorrt_rtx", "torch") if importlib.util.find_spec(name) is None]
        if missing:
            raise WhyNot(f"not installed: {', '.join(missing)}")
        import torch

        if not torch.cuda.is_available():
            raise WhyNot("no CUDA device")
        import tensorrt_rtx

        self._torch = torch
        self._profile: dict[str, int] = model["profile"]
        self._logger = tensorrt_rtx.Logger(tensorrt_rtx.Logger.ERROR)
        self._runtime = tensorrt_rtx.Runtime(self._logger)
        major, minor = torch.cuda.get_device_capability()
        engine = self._runtime.deserialize_cuda_engine(engine_path(model, f"{major}.{minor}").read_bytes())
        if engine is None:
            raise WhyNot("it does not load here; build_engine.py rebuilds it")
        self._engine = engine
        config = engine.create_runtime_config()
        # Otherwise memory is taken for the largest batch of the largest images, which may be gigabytes.
        config.set_execution_context_allocation_strategy(tensorrt_rtx.ExecutionContextAllocationStrategy.USER_MANAGED)
        self._context = engine.create_execution_context(config)
        self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def probabilities(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Of each class, for one image as ``predict.decode`` gives it."""
        torch = self._torch
        pixels = fitted(pixels, self._profile)
        batch = np.repeat(pixels[np.newaxis], self._profile["least_batch"], axis=0)
        with torch.cuda.stream(self._stream):
            images = torch.from_numpy(batch).cuda()
            if not self._context.set_input_shape("images", tuple(images.shape)):
                raise ValueError(f"the engine refuses images of shape {tuple(images.shape)}")
            n_bytes = max(self._context.update_device_memory_size_for_shapes(), LEAST_SCRATCH_BYTES)
            scratch = torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
            answers = torch.empty(
                tuple(self._context.get_tensor_shape("probabilities")), dtype=torch.float32, device="cuda"
            )
            self._context.set_device_memory(scratch.data_ptr(), n_bytes)
            self._context.set_tensor_address("images", images.data_ptr())
            self._context.set_tensor_address("probabilities", answers.data_ptr())
            if not self._context.execute_async_v3(self._stream.cuda_stream):
                raise RuntimeError("the engine did not run")
            shares: NDArray[np.float32] = answers.cpu().numpy()[0]
        return shares


def fitted(pixels: NDArray[np.uint8], profile: dict[str, int]) -> NDArray[np.uint8]:
    """With sides that the engine was built for: larger images are made smaller, their shape kept."""
    height, width = pixels.shape[:2]
    scale = min(1.0, profile["most_px"] / max(height, width))
    new_height, new_width = (max(profile["least_px"], round(side * scale)) for side in (height, width))
    if (new_height, new_width) == (height, width):
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((new_width, new_height), Image.Resampling.BILINEAR))


def engine_path(model: dict[str, Any], capability: str) -> Path:
    """One that was rebuilt here goes before those that came along."""
    rebuilt = Path(HERE, "rebuilt", model["name"])
    names = (f"sm{capability.replace('.', '')}.engine", "current.engine")
    for path in (rebuilt / name for name in names):
        if path.is_file():
            return path
    for file in model["files"]:
        if file["role"] == "engine" and file["compute_capability"] == capability:
            return Path(HERE, file["path"])
    raise WhyNot(f"no engine for compute capability {capability}; build_engine.py makes one")
