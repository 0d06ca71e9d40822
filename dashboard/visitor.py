from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


class SignedIn(HttpRequest):
    """What a view gets behind ``LoginRequiredMiddleware``: the user is a person, never anonymous."""

    user: User
    htmx: HtmxDetails
