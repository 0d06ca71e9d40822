"""System checks: what would fail later, said before the start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register


def _writable(path: Path) -> str:
    """Why nothing can be written into the folder, or an empty string."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(path, os.W_OK | os.X_OK) else "Permission denied"


@register("files")
def folders_can_be_written(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for check_id, name in (("jobs.E001", "DATA_DIR"), ("jobs.E002", "CACHE_DIR")):
        path = Path(getattr(settings, name))
        if reason := _writable(path):
            hint = f"Set {name} to a folder that this user may write, or change the folder's owner."
            found.append(Error(f"{name} {path} cannot be written: {reason}.", hint=hint, id=check_id))
    return found
