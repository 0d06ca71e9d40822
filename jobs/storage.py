"""The storage root of this installation."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from wire.layout import Storage


def storage() -> Storage:
    return Storage(Path(settings.DATA_DIR))
