"""Every way in which the web side says no, as a tree, and the one place that turns an error into an answer.

Refusal                         a request that may not be done; the errors of jobs are in ``wire.errors``
├── NotSignedIn        401      auth.required
├── NotPermitted       403      auth.forbidden
├── CsrfFailed         403      auth.csrf
├── LinkSpent          410      link.spent
├── RequestInvalid     422      request.invalid       with ``fields``: what is wrong where
├── RequestTooLarge    413      request.too_large
├── TooManyAttempts    429      auth.too_many_attempts
├── HeaderInvalid      400      upload.header
├── VersionUnsupported 412      upload.version
├── ContentTypeWrong   415      upload.content_type
├── OffsetWrong        409      upload.offset
├── TooManyBytes       413      upload.too_long
├── UploadLocked       423      upload.locked
├── ServerBusy         503      server.busy
└── UploadStalled      408      upload.stalled

Pages get ``templates/errors/error.html``, htmx a banner, the API ``{"error": {"code", "message", "hint", "fields"}}``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from django.db import DataError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import requires_csrf_token

from dashboard.database import RETRY_AFTER_S, unavailable
from wire.errors import (
    ActionRefused,
    DatabaseUnavailable,
    DiskFull,
    FoveaError,
    JobLocked,
    NotFound,
    ServeUnavailable,
    UploadMissing,
    UploadRefused,
    UserError,
)

API_PREFIX = "/api/"


class Refusal(Exception):
    """Like ``FoveaError``, for what concerns a request and not a job."""

    code: ClassVar[str] = ""
    status: ClassVar[int] = 400

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotSignedIn(Refusal):
    code = "auth.required"
    status = 401


class NotPermitted(Refusal):
    code = "auth.forbidden"
    status = 403


class CsrfFailed(Refusal):
    code = "auth.csrf"
    status = 403


class LinkSpent(Refusal):
    """A one-time link that was used, replaced, has expired or never was."""

    code = "link.spent"
    status = 410


class RequestInvalid(Refusal):
    code = "request.invalid"
    status = 422

    def __init__(self, message: str, *, hint: str = "", fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.fields = dict(fields or {})


class RequestTooLarge(Refusal):
    code = "request.too_large"
    status = 413


class TooManyAttempts(Refusal):
    code = "auth.too_many_attempts"
    status = 429


class HeaderInvalid(Refusal):
    code = "upload.header"
    status = 400


class VersionUnsupported(Refusal):
    code = "upload.version"
    status = 412


class ContentTypeWrong(Refusal):
    code = "upload.content_type"
    status = 415


class OffsetWrong(Refusal):
    code = "upload.offset"
    status = 409


class TooManyBytes(Refusal):
    code = "upload.too_long"
    status = 413


class UploadLocked(Refusal):
    """Another request brings the bytes of this upload."""

    code = "upload.locked"
    status = 423


class ServerBusy(Refusal):
    code = "server.busy"
    status = 503


class UploadStalled(Refusal):
    code = "upload.stalled"
    status = 408


@dataclass(frozen=True, slots=True)
class Problem:
    """What a person or a program is told."""

    status: int
    code: str
    message: str
    hint: str
    fields: Mapping[str, str]

    def body(self) -> dict[str, object]:
        words = {"code": self.code, "message": self.message, "hint": self.hint}
        return {"error": {**words, "fields": dict(self.fields)}}


def problem_of(error: FoveaError | Refusal) -> Problem:
    status = error.status if isinstance(error, Refusal) else _status_of(error)
    fields = error.fields if isinstance(error, RequestInvalid) else {}
    return Problem(status, error.code, error.message, error.hint, fields)


_STATUSES: Mapping[type[FoveaError], int] = {
    NotFound: 404,
    UploadMissing: 404,
    ActionRefused: 409,
    JobLocked: 409,
    UploadRefused: 413,
    DiskFull: 507,
    ServeUnavailable: 503,
    DatabaseUnavailable: 503,
}


def _status_of(error: FoveaError) -> int:
    return _STATUSES.get(type(error)) or (400 if isinstance(error, UserError) else 500)


def answer(request: HttpRequest, error: FoveaError | Refusal) -> HttpResponse:
    return _answer(request, problem_of(error))


def _answer(request: HttpRequest, problem: Problem) -> HttpResponse:
    if request.path_info.startswith(API_PREFIX):
        headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
        return _patient(JsonResponse(problem.body(), status=problem.status, headers=headers))
    if problem.code in {DatabaseUnavailable.code, ServerBusy.code} and not request.headers.get("HX-Request"):
        # Asks neither the session nor the database. What was sent is not sent again by itself.
        context = {"problem": problem, "retry_after_s": RETRY_AFTER_S if request.method == "GET" else 0}
        return _patient(render(None, "errors/unavailable.html", context, status=problem.status))
    template = "errors/banner.html" if request.headers.get("HX-Request") else "errors/error.html"
    return _patient(render(request, template, {"problem": problem}, status=problem.status))


def _patient(response: HttpResponse) -> HttpResponse:
    if response.status_code == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
        response.headers["Cache-Control"] = "no-store"
    return response


UNSTORABLE = RequestInvalid(
    "Something in this request is nothing that a database holds, such as a character of value 0.",
    hint="Remove what no keyboard types, and send it again.",
)


class ErrorPages:
    """Answers in place of a view that raised one of our errors."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "%00" in request.META.get("QUERY_STRING", ""):
            return answer(request, UNSTORABLE)
        response = self.get_response(request)
        if response.status_code == 405 and request.path_info.startswith(API_PREFIX):
            hint = f"Use {response.headers.get('Allow', 'another method')}."
            text = f"{request.method} is not possible at {request.path}."
            refused = JsonResponse(Problem(405, "request.method", text, hint, {}).body(), status=405)
            refused.headers["Allow"] = response.headers.get("Allow", "")
            return refused
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, DataError):
            return answer(request, UNSTORABLE)
        told = unavailable(exception) or exception
        return answer(request, told) if isinstance(told, FoveaError | Refusal) else None


# Django calls the functions below by name: handler400 to handler500 in config.urls, and CSRF_FAILURE_VIEW.


@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = "The server cannot make sense of this request."
    return _answer(request, Problem(400, "request.invalid", text, "Go back and try again.", {}))


@requires_csrf_token
def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, NotPermitted("You may not do this.", hint="Ask an administrator."))


@requires_csrf_token
def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = f"There is nothing at {request.path}."
    return answer(request, NotFound(text, hint="Check the address, or start from the home page."))


@requires_csrf_token
def server_error(request: HttpRequest) -> HttpResponse:
    """Asks neither the session nor the database: they may be what failed."""
    # Outside of a view too, where a session is kept or a page for another error is made.
    if told := unavailable(sys.exception()):
        return answer(request, told)
    hint = "It is in the server's log with its cause. Try again; if it stays, tell whoever runs this server."
    problem = Problem(500, "unexpected", "Something went wrong in the server.", hint, {})
    if request.path_info.startswith(API_PREFIX):
        return JsonResponse(problem.body(), status=500)
    return render(None, "errors/server_error.html", {"problem": problem}, status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    hint = "Reload the page and send it again. Cookies must be allowed for this address."
    return answer(request, CsrfFailed("This form was not sent from a current page of this server.", hint=hint))
