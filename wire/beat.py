"""What a supervisor says to its trainer every few seconds, between hosts: until when it may work.

The two share a kernel, so they share CLOCK_BOOTTIME: it never jumps, it goes on while the machine sleeps, and a
moment of it means the same to both. So the file holds moments, not ages: it does not matter when it is read.
"""

from __future__ import annotations

import math
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

LEASED = "FOVEA_LEASED"
"""In a trainer's environment where a lease is renewed for it: not from a bare shell, not where one host is alone."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Both by ``boot_clock_s``."""

    save_at_s: float
    """From then on the trainer saves and stops by itself."""
    end_at_s: float
    """From then on it may not exist."""


def boot_clock_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_deadlines(path: Path, deadlines: Deadlines) -> None:
    """In place and of one length, so that it needs no room on a full disk. Its time changes too: a beat as any other.

    Raises:
        OSError: it cannot be written.
    """
    text = f"{deadlines.save_at_s:018.3f} {deadlines.end_at_s:018.3f}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(file, f"{text} {_check(text)}\n".encode(), 0)
    finally:
        os.close(file)


def read_deadlines(path: Path) -> Deadlines | None:
    """None where nothing was written, or only half of it is there yet: then what was read before still holds."""
    try:
        save_at, end_at, check = path.read_text().split()
        found = Deadlines(float(save_at), float(end_at))
    except (OSError, ValueError):
        return None
    is_whole = check == _check(f"{save_at} {end_at}") and math.isfinite(found.end_at_s)
    return found if is_whole else None


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
