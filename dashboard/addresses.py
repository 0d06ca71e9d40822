"""What stands in an address, read without trusting it."""

from __future__ import annotations

from typing import Final

MOST_DIGITS: Final = 18
"""No id has more: the database counts to 2 ** 63."""


def id_of(text: str) -> int | None:
    """The id of a row; None for what can be none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None
