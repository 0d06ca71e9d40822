"""Room on the disk for an export, and what is said when there is too little."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wire.errors import DiskFull

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_BYTES_PER_PARAMETER: Final = 4
_BESIDES_BYTES: Final = 16 * 2**20
"""For golden images, answers and the report."""


@contextmanager
def full_disk_named(folder: Path, n_parameters: int) -> Iterator[None]:
    """Around all that writes into ``folder``; of a full disk it says how much is missing at least.

    Raises:
        DiskFull: there was no room.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        needed_bytes = n_parameters * _BYTES_PER_PARAMETER + _BESIDES_BYTES
        written_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        raise DiskFull(
            f"The export does not fit into {folder}: at least {needed_bytes:,} bytes are needed, "
            f"{max(1, needed_bytes - written_bytes):,} bytes are missing.",
            hint="Free some space there, then export again.",
        ) from error


def _is_full(error: BaseException) -> bool:
    # Writers in compiled code have errors of their own, which quote the system's words.
    return (isinstance(error, OSError) and error.errno in _NO_SPACE) or "No space left on device" in str(error)
