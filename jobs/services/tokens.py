"""Bearer tokens: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone

from jobs.models import ApiToken
from wire.errors import NotFound, SpecInvalid

USED_AT_EVERY = timedelta(minutes=1)
"""``used_at`` is written no oftener, so that a client which polls does not write with each request."""


def token_create(owner: User, name: str, *, scope: Literal["read", "write"] = "write") -> tuple[ApiToken, str]:
    """A new token, and the secret that is not kept."""
    wanted = name.strip()
    if not 1 <= len(wanted) <= 80:
        raise SpecInvalid(f"A token name of {len(wanted)} characters.", hint="Give it 1 to 80 characters.")
    secret = f"fovea_{secrets.token_urlsafe(32)}"
    token = ApiToken.objects.create(owner=owner, name=wanted, prefix=secret[:12], hash=_hash(secret), scope=scope)
    return token, secret


def token_find(secret: str) -> ApiToken | None:
    """The token of this secret, if it is valid now and its owner is active."""
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("owner")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), hash=_hash(secret), owner__is_active=True)
        .first()
    )
    if token is not None and (token.used_at is None or now - token.used_at > USED_AT_EVERY):
        # Only a note: who may read can do so although the database takes no change.
        with suppress(DatabaseError), transaction.atomic():
            ApiToken.objects.filter(pk=token.pk).update(used_at=now)
    return token


def token_revoke(user: User, token_id: int) -> None:
    tokens = ApiToken.objects.all() if user.is_staff else ApiToken.objects.filter(owner=user)
    n_deleted, _ = tokens.filter(pk=token_id).delete()
    if not n_deleted:
        raise NotFound(f"There is no token #{token_id}.", hint="It may have been revoked already.")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
