"""Collect static files, but only when one of them changed: hashing and compressing them takes seconds."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

KEPT_S: Final = 30 * 24 * 3600
"""Of files of earlier versions."""


def collect_static(stamp_path: Path) -> bool:
    """Returns whether anything was collected."""
    wanted = _fingerprint()
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    if manifest.exists() and stamp_path.exists() and stamp_path.read_text() == wanted:
        return False
    stamp_path.unlink(missing_ok=True)
    _keep_for_a_while(manifest)
    # Not cleared: a web server of the version before goes on giving out the files of its pages, and so do open tabs.
    call_command("collectstatic", interactive=False, verbosity=0)
    _remove_old(Path(settings.STATIC_ROOT), json.loads(manifest.read_text())["paths"].values())
    stamp_path.write_text(wanted)
    return True


def _keep_for_a_while(manifest: Path) -> None:
    """The age of a file counts from when it was last present, however long ago it was made."""
    try:
        present = json.loads(manifest.read_text())["paths"].values()
    except FileNotFoundError:
        return
    except ValueError:
        # Cut off while it was written; Django would not begin with it.
        manifest.unlink()
        return
    for name in present:
        for path in (manifest.parent / name, manifest.parent / f"{name}.gz"):
            if path.exists():
                os.utime(path)


def _remove_old(root: Path, present: Iterable[str]) -> None:
    """What no page has named for a while, with the compressed copies beside it."""
    wanted = {root / name for name in present} | {root / "staticfiles.json"}
    before_s = time.time() - KEPT_S
    for path in root.rglob("*"):
        is_wanted = path in wanted or path.with_suffix("") in wanted
        if not is_wanted and path.is_file() and path.stat().st_mtime < before_s:
            path.unlink()


def _fingerprint() -> str:
    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in sorted(finder.list(None), key=lambda found: (getattr(found[1], "prefix", ""), found[0])):
            found = Path(storage.path(name)).stat()
            digest.update(f"{storage.path(name)}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
