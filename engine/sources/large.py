"""Files so large that a few of them at once would fill the memory: looked at first, and read one after another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from engine.sources.magic import kind_of
from engine.sources.tree import MemberUnreadable

LARGE_BYTES: Final = 32 * 2**20

_reading = threading.Lock()


@contextmanager
def turn(n_bytes: int) -> Iterator[None]:
    """Waits while another large file is read and unpacked; smaller ones pass."""
    if n_bytes <= LARGE_BYTES:
        yield
        return
    with _reading:
        yield


def demand_image(name: str, head: bytes) -> None:
    """Refuse a file that is no picture by its first bytes; a text list may be large too.

    Raises:
        MemberUnreadable: it does not begin as a picture does.
    """
    if not name.lower().endswith(".txt") and kind_of(head) != "picture":
        raise MemberUnreadable("not an image in a format that is read here")
