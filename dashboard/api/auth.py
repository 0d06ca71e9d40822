"""Who may call the API: a bearer token, or the session of a page with its CSRF token."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from dashboard.errors import CsrfFailed, NotPermitted, NotSignedIn
from jobs.log_context import add_to_log
from jobs.services import token_find

READING = frozenset({"GET", "HEAD", "OPTIONS"})


class BearerToken(HttpBearer):
    """``Authorization: Bearer TOKEN``; it wins over a session."""

    def authenticate(self, request: HttpRequest, token: str) -> User:
        found = token_find(token)
        if found is None:
            raise NotSignedIn(
                "This token is not valid.", hint=f"It may be revoked. Make a new one at {reverse('tokens')}."
            )
        if found.scope == "read" and request.method not in READING:
            hint = f"Make a token that may write at {reverse('tokens')}."
            raise NotPermitted(f"The token {found.name!r} may only read.", hint=hint)
        request.user = found.owner
        add_to_log(user=found.owner_id)
        return found.owner


class PageSession(APIKeyCookie):
    """The session cookie; a change needs the header ``X-CSRFToken`` too."""

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> Any | None:
        return self.authenticate(request, None)

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        if not isinstance(request.user, User):
            return None
        if check_csrf(request) is not None:
            hint = "Send the page's CSRF token as X-CSRFToken, or use a bearer token."
            raise CsrfFailed("This change does not come from a page of this server.", hint=hint)
        add_to_log(user=request.user.pk)
        return request.user
