"""A disk of a few megabytes, which a test fills and empties."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MIB = 2**20


class SmallDisk:
    """A file system in memory. Needs the right to mount."""

    def __init__(self, place: Path, size_bytes: int) -> None:
        self.place = place
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place)], check=True)

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.place)
        return found.f_bavail * found.f_frsize

    def fill(self, *, leave_bytes: int) -> None:
        """With one file, until so much is free."""
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, self.free_bytes - leave_bytes))

    def make_room(self) -> None:
        self._filler.unlink()

    def remove(self) -> None:
        # Lazily: a process that is just ending may still have a file open.
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    @property
    def _filler(self) -> Path:
        return self.place / "filler"
