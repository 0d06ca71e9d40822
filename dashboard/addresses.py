"""What stands in an address, read without trusting it; and addresses below the folder of the site where Fovea is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.urls import reverse

MOST_DIGITS: Final = 18
"""No id has more: the database counts to 2 ** 63."""


def id_of(text: str) -> int | None:
    """The id of a row; None for what can be none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def api_address(path: str) -> str:
    """``trainings/3/predict`` -> what a page asks for it."""
    return f"{reverse('api_root')}{path}"


def inner_path(scope: Mapping[str, Any]) -> str:
    """The path of a request to the ASGI application, without the folder of the site."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
