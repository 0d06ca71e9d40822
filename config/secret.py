"""Random secrets that an installation makes for itself and keeps in files that only its user can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def kept_secret(path: Path) -> str:
    """The secret kept at ``path``; made at the first call, by whichever process comes first.

    Raises:
        OSError: The file can be neither read nor written.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written beside and linked into place: nobody ever reads half a secret, and the first one wins.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(48))
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        pass
    finally:
        beside.unlink()
    return _read(path)


def _read(path: Path) -> str:
    return path.read_text().strip()
