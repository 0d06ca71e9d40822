"""The machines that work for this installation, and how each says that it is there."""

from __future__ import annotations

import platform
import secrets
import time
import tomllib
from functools import cache

from django.conf import settings
from django.db.models.functions import Now

from jobs.clocks import clock_ahead_s
from jobs.host import host_name, is_shared_database
from jobs.models import Host
from jobs.process import boot_id
from jobs.storage import storage

SAY_EVERY_S = 10.0
PROOF = "proof"
"""In ``Host.versions``: what the host has written into the data folder, for one that joins to compare."""
_N_PROOF_BYTES = 16


@cache
def fovea_version() -> str:
    text = (settings.BASE_DIR / "pyproject.toml").read_text()
    return str(tomllib.loads(text)["project"]["version"])


class HostSign:
    """Says every few seconds that this host is there: its row, in the time of the database."""

    def __init__(self) -> None:
        self._said_at_s = -SAY_EVERY_S
        self._proof = secrets.token_hex(_N_PROOF_BYTES)
        self._is_proof_written = False

    def say(self) -> None:
        """Cost: two statements, every ten seconds.

        Raises:
            OSError: the data folder cannot be written.
        """
        now_s = time.monotonic()
        if now_s - self._said_at_s < SAY_EVERY_S:
            return
        if is_shared_database() and not self._is_proof_written:
            write_proof(host_name(), self._proof)
            self._is_proof_written = True
        columns = {
            "boot_id": boot_id(),
            "seen_at": Now(),
            "clock_ahead_s": clock_ahead_s(),
            "versions": {"fovea": fovea_version(), "python": platform.python_version(), PROOF: self._proof},
        }
        Host.objects.update_or_create(name=host_name(), defaults=columns)
        self._said_at_s = now_s


def write_proof(name: str, proof: str) -> None:
    """So that a host that joins sees that the database and the folder belong together, and are in use now."""
    path = storage().host_proof_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(proof)


def has_proof(host: Host) -> bool:
    """Whether the data folder, as this machine sees it, holds what that host has written there."""
    try:
        found = storage().host_proof_path(host.name).read_text()
    except OSError:
        return False
    return bool(found) and found == host.versions.get(PROOF)
