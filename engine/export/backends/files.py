"""Files of an export, written so that they are whole."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes | memoryview) -> Path:
    """Write and sync. Cost: an fsync. The folder's own entry is synced by whoever publishes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return path
