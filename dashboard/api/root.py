"""The HTTP API: one object that knows every operation, and how each error is answered."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation

from dashboard.api import (
    accounts,
    bundles,
    catalog,
    classifications,
    comparison,
    curves,
    datasets,
    devices,
    evaluations,
    exports,
    gallery,
    jobs,
    server_folders,
    trainings,
    trash,
    trying,
    uploads,
)
from dashboard.api.auth import BearerToken, PageSession
from dashboard.errors import UNSTORABLE, NotPermitted, NotSignedIn, Refusal, RequestInvalid, TooManyAttempts, answer
from dashboard.previews import PreviewError
from wire.errors import ActionRefused, FoveaError, NotFound

DESCRIPTION = """
Everything that the pages do. Sign in with `Authorization: Bearer TOKEN` (made at `/settings/tokens/`), or use the
session of a page with its CSRF token. A change asks for a token that may write.

Every error is `{"error": {"code", "message", "hint", "fields"}}`; `hint` says what to do next.
"""


class FoveaApi(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Short and unique, for those who generate a client from the document."""
        return operation.view_func.__name__


api = FoveaApi(
    title="Fovea",
    version="1",
    description=DESCRIPTION.strip(),
    urls_namespace="api",
    auth=[BearerToken(), PageSession()],
    # Both documents are below, behind the same door as everything else.
    openapi_url=None,
    docs_url=None,
)

api.add_router("/jobs", jobs.router, tags=["jobs"])
api.add_router("/jobs", curves.router, tags=["jobs"])
api.add_router("/trash", trash.router, tags=["jobs"])
api.add_router("/datasets", datasets.router, tags=["datasets"])
api.add_router("/datasets", gallery.router, tags=["datasets"])
api.add_router("/trainings", trainings.router, tags=["trainings"])
api.add_router("/trainings", evaluations.of_run, tags=["evaluations"])
api.add_router("/evaluations", evaluations.router, tags=["evaluations"])
api.add_router("/trainings", classifications.of_run, tags=["classifications"])
api.add_router("/classifications", classifications.router, tags=["classifications"])
api.add_router("/trainings", exports.of_run, tags=["exports"])
api.add_router("/exports", exports.router, tags=["exports"])
api.add_router("/backends", exports.backends, tags=["exports"])
api.add_router("/trainings", bundles.of_run, tags=["exports"])
api.add_router("/exports", bundles.router, tags=["exports"])
api.add_router("/trainings", comparison.router, tags=["comparison"])
api.add_router("/trainings", trying.router, tags=["trying"])
api.add_router("/catalog", catalog.router, tags=["catalog"])
api.add_router("/devices", devices.router, tags=["devices"])
api.add_router("/uploads", uploads.router, tags=["uploads"])
api.add_router("/server-folders", server_folders.router, tags=["uploads"])
api.add_router("", accounts.router, tags=["accounts"])


@api.get("/openapi.json", include_in_schema=False, url_name="openapi")
def openapi(request: HttpRequest) -> HttpResponse:
    return JsonResponse(api.get_openapi_schema())


def _our_error(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(request, error)


def _invalid(request: HttpRequest, error: Any) -> HttpResponse:
    fields = {_place(each["loc"]): str(each["msg"]).removeprefix("Value error, ") for each in error.errors}
    first = next(iter(fields.items()), ("body", "not readable"))
    invalid = RequestInvalid(
        f"{first[0]}: {first[1]}", hint="Mend the fields that are named and send it again.", fields=fields
    )
    return answer(request, invalid)


def _place(location: Any) -> str:
    """``("body", "wish", "options", "epochs")`` -> ``options.epochs``: the first two name no field."""
    parts = [str(part) for part in location]
    return ".".join(parts[2:] if parts[0] == "body" else parts[1:]) or "body"


def _http_error(request: HttpRequest, error: Any) -> HttpResponse:
    hint = f"Sign in, or send `Authorization: Bearer TOKEN`. Tokens are made at {reverse('tokens')}."
    match error.status_code:
        case 401:
            return answer(request, NotSignedIn("This needs somebody who is signed in.", hint=hint))
        case 403:
            return answer(request, NotPermitted(error.message))
        case 429:
            return answer(request, TooManyAttempts(error.message))
        case _:
            return answer(request, RequestInvalid(error.message, hint="Send a JSON object as the documentation says."))


def _no_such_thing(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(
        request,
        NotFound(f"There is nothing at {request.path}.", hint=f"The list of paths is at {reverse('api_docs')}."),
    )


def _no_pictures(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(request, ActionRefused(str(error), hint="Change a setting, or try again in a while."))


def _unexpected(request: HttpRequest, error: Any) -> NoReturn:
    """Left to Django, which logs it and calls ``dashboard.errors.server_error``."""
    raise error


def _unstorable(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(request, UNSTORABLE)


api.add_exception_handler(FoveaError, _our_error)
api.add_exception_handler(Refusal, _our_error)
api.add_exception_handler(ValidationError, _invalid)
api.add_exception_handler(DataError, _unstorable)
api.add_exception_handler(HttpError, _http_error)
api.add_exception_handler(Http404, _no_such_thing)
api.add_exception_handler(PreviewError, _no_pictures)
api.add_exception_handler(Exception, _unexpected)
