"""Any exception as one of the errors that a person can meet."""

from __future__ import annotations

import errno
from typing import Final

from wire.errors import DeviceLost, DiskFull, DriverMismatch, FoveaError, OutOfMemory, Unexpected

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_HOST_MEMORY: Final = ("can't allocate memory", "Failed to allocate memory", "bad_alloc", "bad allocation")
"""As torch, ONNX Runtime and what else is compiled say it."""
_NO_DEVICE_MEMORY: Final = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
)
_DRIVER_MISMATCH: Final = (
    "driver on your system is too old",
    "CUDA driver version is insufficient",
    "driver/library version mismatch",
    "system has unsupported display driver / cuda driver combination",
    "forward compatibility was attempted on non supported HW",
    "the provided PTX was compiled with an unsupported toolchain",
    "no kernel image is available for execution on the device",
)
_DEVICE_LOST: Final = (
    "CUDA error: unknown error",
    "CUDA error: unspecified launch failure",
    "CUDA error: device-side assert triggered",
    "CUDA error: the launch timed out",
    "CUDA error: uncorrectable ECC error",
    "CUDA error: hardware stack error",
    "CUDA error: uncorrectable NVLink error",
    "CUDA error: all CUDA-capable devices are busy or unavailable",
    "CUDA error: no CUDA-capable device is detected",
    "CUDA error: initialization error",
    "GPU is lost",
    "has fallen off the bus",
)
"""What the runtime says once a GPU, or its context, is gone: nothing more can be computed in this process."""


def as_fovea_error(error: BaseException) -> FoveaError:
    """What to tell about ``error``; torch's own classes are known by name, so that this needs no torch."""
    if isinstance(error, FoveaError):
        return error
    text = str(error)
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        where = f" while writing {error.filename}" if error.filename else ""
        return DiskFull(f"The disk is full{where}.", hint="Free some space, then start the job again: it continues.")
    if isinstance(error, MemoryError) or _says(text, _NO_HOST_MEMORY):
        return OutOfMemory(
            "The machine's memory (RAM) is used up.",
            hint="Choose a smaller batch size or image size, or wait until other jobs have ended.",
        )
    if is_out_of_memory(error):
        return OutOfMemory(
            f"The device's memory is used up: {_first_line(text)}",
            hint="Choose a smaller batch size; a smaller image size or bf16 precision helps too.",
        )
    return _of_the_device(text) or Unexpected(
        f"{type(error).__name__}: {_first_line(text)}" if text else type(error).__name__,
        hint="The full traceback is at the end of the log.",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the same work in smaller pieces may succeed, on the same device and in the same process."""
    text = str(error)
    if isinstance(error, FoveaError | OSError):
        return False
    return type(error).__name__ == "OutOfMemoryError" or _says(text, _NO_DEVICE_MEMORY) or _says(text, _NO_HOST_MEMORY)


def _of_the_device(text: str) -> FoveaError | None:
    if _says(text, _DRIVER_MISMATCH):
        return DriverMismatch(
            f"The GPU's driver and this PyTorch do not fit together: {_first_line(text)}",
            hint="Update the driver and restart the machine, or choose the CPU.",
        )
    if _says(text, _DEVICE_LOST):
        return DeviceLost(
            f"The GPU stopped answering: {_first_line(text)}",
            hint="The run continues from its last checkpoint on a free device; dmesg may name the cause.",
        )
    return None


def _says(text: str, phrases: tuple[str, ...]) -> bool:
    lower = text.lower()
    return any(phrase.lower() in lower for phrase in phrases)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
