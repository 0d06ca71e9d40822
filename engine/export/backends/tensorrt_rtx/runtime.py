"""An engine on a GPU. The buffers are torch's tensors; kernels are compiled when a shape is first seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorrt_rtx as trt
import torch
from numpy.typing import NDArray
from PIL import Image

from engine.export.backends.naming import device_name
from engine.export.backends.tensorrt_rtx.compile import INPUT, Messages
from wire.errors import ActionRefused
from wire.exports import InputProfile

OUTPUT: Final = "probabilities"
_LEAST_SCRATCH_BYTES: Final = 256


class TensorRtRtxRuntime:
    """Takes batches and images of any size: what the engine's profile does not hold is split, padded or resized.

    Memory for intermediate values is that of the shape at hand, not that of the profile's largest.
    """

    n_threads: Final = 0
    notes: Final[tuple[str, ...]] = ()

    def __init__(self, path: Path, device: torch.device) -> None:
        self._torch_device = device
        self._messages = Messages()
        with torch.cuda.device(device):
            self._runtime = trt.Runtime(self._messages)
            data = path.read_bytes()
            self._engine = self._runtime.deserialize_cuda_engine(data)
            if self._engine is None:
                raise self._not_loaded(path, data)
            config = self._engine.create_runtime_config()
            config.set_execution_context_allocation_strategy(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
            self._context = self._engine.create_execution_context(config)
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.profile = profile_of(self._engine)

    @property
    def device(self) -> str:
        return device_name(self._torch_device)

    def probabilities(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        images_NHWC = fitted(images_NHWC, self.profile)
        step = self.profile.most_batch
        return np.concatenate([self._batch(images_NHWC[i : i + step]) for i in range(0, len(images_NHWC), step)])

    def close(self) -> None:
        del self._context, self._engine, self._runtime

    def _batch(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        n_images = len(images_NHWC)
        n_short = max(0, self.profile.least_batch - n_images)
        padded_NHWC = np.concatenate([images_NHWC, np.repeat(images_NHWC[:1], n_short, axis=0)])
        with torch.cuda.device(self._torch_device), torch.cuda.stream(self._stream):
            inputs = torch.from_numpy(padded_NHWC).to(self._torch_device)
            if not self._context.set_input_shape(INPUT, tuple(inputs.shape)):
                raise RuntimeError(f"the engine refuses images of shape {tuple(inputs.shape)}")
            n_bytes = max(self._context.update_device_memory_size_for_shapes(), _LEAST_SCRATCH_BYTES)
            scratch = torch.empty(n_bytes, dtype=torch.uint8, device=self._torch_device)
            outputs = torch.empty(
                tuple(self._context.get_tensor_shape(OUTPUT)), dtype=torch.float32, device=self._torch_device
            )
            self._context.set_device_memory(scratch.data_ptr(), n_bytes)
            self._context.set_tensor_address(INPUT, inputs.data_ptr())
            self._context.set_tensor_address(OUTPUT, outputs.data_ptr())
            if not self._context.execute_async_v3(self._stream.cuda_stream):
                raise RuntimeError(f"the engine did not run: {' '.join(self._messages.complaints)}")
            shares_NK: NDArray[np.float32] = outputs.cpu().numpy()[:n_images]
        return shares_NK

    def _not_loaded(self, path: Path, data: bytes) -> ActionRefused:
        _, diagnostics = self._runtime.get_engine_validity(data)
        said = " ".join(self._messages.complaints)
        return ActionRefused(
            f"{path.name} cannot be loaded on {self.device}: {diagnostics}. {said}".strip(),
            hint="Export it again here, or update the driver.",
        )


def profile_of(engine: Any) -> InputProfile:
    """What the engine was built for, as it says itself."""
    least, typical, most = (tuple(shape) for shape in engine.get_tensor_profile_shape(INPUT, 0))
    return InputProfile(
        least_batch=least[0],
        typical_batch=typical[0],
        most_batch=most[0],
        least_px=least[1],
        typical_px=typical[1],
        most_px=most[1],
    )


def fitted(images_NHWC: NDArray[np.uint8], profile: InputProfile) -> NDArray[np.uint8]:
    """Images with sides that the profile holds: larger ones made smaller with their shape kept, by Pillow's filter.

    Shapes:
        images (N, H, W, 3); returns (N, H', W', 3), the same array where it fits.
    """
    height, width = images_NHWC.shape[1:3]
    scale = min(1.0, profile.most_px / max(height, width))
    new_height, new_width = (max(profile.least_px, round(side * scale)) for side in (height, width))
    if (new_height, new_width) == (height, width):
        return images_NHWC
    resized = (
        Image.fromarray(image_HWC).resize((new_width, new_height), Image.Resampling.BILINEAR)
        for image_HWC in images_NHWC
    )
    return np.stack([np.asarray(image) for image in resized])
