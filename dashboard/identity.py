"""Who is asking, where it is not Django's own middleware that finds out: bearer tokens, and sockets."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host

from jobs.services import token_find

BEARER: Final = "bearer"


def bearer_secret(authorization: str) -> str | None:
    """The token of an ``Authorization`` header; None where it is of another kind."""
    scheme, _, secret = authorization.strip().partition(" ")
    return secret.strip() if scheme.lower() == BEARER else None


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin1").lower(): value.decode("latin1") for name, value in scope.get("headers", [])}


def socket_user(scope: Mapping[str, Any]) -> User | None:
    """Whoever opened this socket, read anew each time: None once signed out, revoked or deactivated."""
    headers = headers_of(scope)
    if "authorization" in headers:
        token = token_find(bearer_secret(headers["authorization"]) or "")
        return token.owner if token is not None else None
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    return user if isinstance(user, User) else None


class SameOrigin:
    """Refuses a socket that another site's page opens: browsers send our cookie with it whatever its origin.

    A page may connect to the host and port that it came from, or be of a trusted origin. Without an ``Origin`` it is no
    browser, which must then bring a token.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        application: Any = self._application if self._allows(headers_of(scope)) else WebsocketDenier.as_asgi()
        return await application(scope, receive, send)

    def _allows(self, headers: dict[str, str]) -> bool:
        origin, host = headers.get("origin", ""), headers.get("host", "")
        if not origin:
            return "authorization" in headers
        if origin in settings.CSRF_TRUSTED_ORIGINS:
            return True
        domain, _ = split_domain_port(host)
        return _netloc(origin) == host and validate_host(domain, settings.ALLOWED_HOSTS)


def _netloc(origin: str) -> str | None:
    """Host and port; None where the text is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
