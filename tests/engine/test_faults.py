from __future__ import annotations

import errno

import pytest

from engine.faults import as_fovea_error
from wire.errors import DiskFull, LossNotFinite, OutOfMemory, Unexpected


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
