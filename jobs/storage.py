"""The storage root of this installation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from wire.layout import Storage


def storage() -> Storage:
    return Storage(Path(settings.DATA_DIR))


@contextmanager
def privately() -> Iterator[None]:
    """Nobody else on this machine reads what is written meanwhile. It holds for the whole process: for commands."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
