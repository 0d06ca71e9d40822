"""Collect static files, but only when one of them changed: hashing and compressing them takes seconds."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command


def collect_static(stamp_path: Path) -> bool:
    """Returns whether anything was collected."""
    wanted = _fingerprint()
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    if manifest.exists() and stamp_path.exists() and stamp_path.read_text() == wanted:
        return False
    stamp_path.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp_path.write_text(wanted)
    return True


def _fingerprint() -> str:
    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in sorted(finder.list(None), key=lambda found: (getattr(found[1], "prefix", ""), found[0])):
            found = Path(storage.path(name)).stat()
            digest.update(f"{storage.path(name)}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
