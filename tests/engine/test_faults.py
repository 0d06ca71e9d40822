from __future__ import annotations

import errno

import pytest

from engine.faults import as_fovea_error, is_out_of_memory
from wire.errors import DeviceLost, DiskFull, DriverMismatch, LossNotFinite, OutOfMemory, Unexpected


class OutOfMemoryError(RuntimeError):
    """Named as torch's own."""


@pytest.mark.parametrize(
    ("raised", "kind", "told"),
    [
        (
            OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB\nmore"),
            OutOfMemory,
            "Tried to allocate 20 GiB",
        ),
        (RuntimeError("CUDA error: out of memory"), OutOfMemory, "device"),
        (MemoryError(), OutOfMemory, "RAM"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), OutOfMemory, "RAM"),
        (RuntimeError("BFCArena: Failed to allocate memory for requested buffer of size 9"), OutOfMemory, "RAM"),
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), DiskFull, "/data/x"),
        (OSError(errno.EDQUOT, "Quota exceeded"), DiskFull, "disk is full"),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`"),
            OutOfMemory,
            "device",
        ),
        (RuntimeError("CUDA error: unknown error\nCompile with"), DeviceLost, "CUDA error: unknown error"),
        (RuntimeError("CUDA error: device-side assert triggered"), DeviceLost, "device-side"),
        (RuntimeError("NVMLError_GpuIsLost: GPU is lost"), DeviceLost, "GPU is lost"),
        (
            RuntimeError("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."),
            DriverMismatch,
            "found version 11040",
        ),
        (RuntimeError("Failed to initialize NVML: Driver/library version mismatch"), DriverMismatch, "NVML"),
        (RuntimeError("CUDA error: no kernel image is available for execution on the device"), DriverMismatch, "image"),
        (OSError(errno.EACCES, "Permission denied"), Unexpected, "Permission denied"),
        (ZeroDivisionError("division by zero"), Unexpected, "ZeroDivisionError: division by zero"),
        (ValueError(), Unexpected, "ValueError"),
    ],
)
def test_each_fault_has_a_code_and_names_its_cause(raised, kind, told):
    error = as_fovea_error(raised)
    assert type(error) is kind
    assert told in error.message
    assert error.hint
    assert "\n" not in error.message


def test_an_error_that_already_says_all_stays_as_it_is():
    error = LossNotFinite("The loss became nan.", hint="Lower it.")
    assert as_fovea_error(error) is error


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (OutOfMemory("too much", hint="take less"), False),
        (OSError(errno.ENOMEM, "Out of memory"), False),
        (RuntimeError("CUDA error: unknown error"), False),
    ],
)
def test_only_what_smaller_pieces_may_mend_is_a_lack_of_memory(raised, expected):
    assert is_out_of_memory(raised) is expected
