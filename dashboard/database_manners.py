"""What a request tells the database of itself, and what it keeps from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from dashboard.errors import RequestInvalid
from jobs.submissions import Key, asked_with

KEY_HEADER: Final = "Idempotency-Key"
LONGEST_KEY: Final = 200


class DatabaseManners:
    """Around every request: what names the wish of one that submits, and no connection kept while a file is sent."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with asked_with(lambda: _key_of(request)):
            response = self.get_response(request)
        # Many slow downloads would take all connections that the database has.
        if response.streaming and not connection.in_atomic_block:
            connection.close()
        return response


def _key_of(request: HttpRequest) -> Key | None:
    """A client's own, or what is in each form of a page and differs from page to page: the token against forgery."""
    if told := request.headers.get(KEY_HEADER, ""):
        if len(told) > LONGEST_KEY:
            text = f"{KEY_HEADER} has {len(told)} characters; {LONGEST_KEY} are the most."
            raise RequestInvalid(text, hint="Send a shorter one, such as a UUID.", fields={KEY_HEADER: text})
        return Key(told)
    token = request.POST.get("csrfmiddlewaretoken", "")
    return Key(token, while_it_lasts=True) if token else None
