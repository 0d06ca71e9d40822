"""How much memory a process took, told by itself."""

from __future__ import annotations

import re
from pathlib import Path


def peak_bytes() -> int:
    """The most that this program had in memory.

    What ``resource.getrusage`` tells of a process begins with the size of the one that started it, which in a test may
    have loaded anything.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, "no Linux"
    return int(found[1]) * 1024
