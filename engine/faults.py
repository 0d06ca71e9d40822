"""Any exception as one of the errors that a person can meet."""

from __future__ import annotations

import errno

from wire.errors import DiskFull, FoveaError, OutOfMemory, Unexpected

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_MEMORY = ("can't allocate memory", "Failed to allocate memory", "bad_alloc", "bad allocation")
"""As torch, ONNX Runtime and what else is compiled say it."""


def as_fovea_error(error: BaseException) -> FoveaError:
    """What to tell about ``error``; torch's own classes are known by name, so that this needs no torch."""
    if isinstance(error, FoveaError):
        return error
    text = str(error)
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        where = f" while writing {error.filename}" if error.filename else ""
        return DiskFull(f"The disk is full{where}.", hint="Free some space, then start the job again: it continues.")
    if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
        return OutOfMemory(
            "The machine's memory (RAM) is used up.",
            hint="Choose a smaller batch size or image size, or wait until other jobs have ended.",
        )
    if type(error).__name__ == "OutOfMemoryError" or "out of memory" in text.lower():
        return OutOfMemory(
            f"The device's memory is used up: {_first_line(text)}",
            hint="Choose a smaller batch size; a smaller image size or bf16 precision helps too.",
        )
    return Unexpected(
        f"{type(error).__name__}: {_first_line(text)}" if text else type(error).__name__,
        hint="The full traceback is at the end of the log.",
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
