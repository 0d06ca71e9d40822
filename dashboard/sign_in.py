"""Every page needs a session. The API asks for itself: see ``dashboard.api.auth``."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from dashboard.accounts import setup_needed
from dashboard.database import unavailable
from dashboard.errors import answer
from jobs.log_context import add_to_log


class SignInRequired(LoginRequiredMiddleware):
    """Django's own, but for three things: the API, the first visit, and fragments that htmx asks for."""

    def process_view(self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any) -> Any:
        match = request.resolver_match
        if match is not None and "ninja" in match.app_names:
            return None  # each operation answers 401 itself, and never with a redirect
        if not getattr(view_func, "login_required", True):
            return None  # Django asks who it is all the same, and whether the process is up needs no database
        try:
            if request.user.is_authenticated:
                add_to_log(user=request.user.pk)
            return super().process_view(request, view_func, view_args, view_kwargs)
        except DatabaseError as error:
            if told := unavailable(error):
                return answer(request, told)
            raise

    def handle_no_permission(  # type: ignore[override]  # the stubs know of redirects only
        self, request: HttpRequest, view_func: Any
    ) -> HttpResponseBase:
        if setup_needed():
            return _go(request, reverse("setup"))
        if request.headers.get("HX-Request"):
            # Followed inside the page, a redirect would put the form to sign in where a fragment belongs.
            return HttpResponseClientRedirect(reverse("login"))
        return super().handle_no_permission(request, view_func)


def _go(request: HttpRequest, path: str) -> HttpResponse:
    return HttpResponseClientRedirect(path) if request.headers.get("HX-Request") else redirect(path)
