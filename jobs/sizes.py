"""Bytes in words."""

from __future__ import annotations

UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def size_text(n_bytes: int) -> str:
    """``40 MB``, ``1.5 GB``."""
    for unit_bytes, unit in UNITS:
        if n_bytes >= unit_bytes:
            return f"{_rounded_down(n_bytes / unit_bytes)} {unit}"
    return f"{n_bytes} bytes"


def share_text(part_bytes: int, whole_bytes: int) -> str:
    """``12 of 40 MB``; to the byte where rounding would make both the same."""
    for unit_bytes, unit in UNITS:
        if whole_bytes >= unit_bytes:
            part, whole = _rounded_down(part_bytes / unit_bytes), _rounded_down(whole_bytes / unit_bytes)
            if part != whole:
                return f"{part} of {whole} {unit}"
            break
    return f"{part_bytes:,} of {whole_bytes:,} bytes"


def _rounded_down(value: float) -> str:
    """Never more than there is."""
    return f"{int(value * 10) / 10:g}" if value < 10 else str(int(value))
