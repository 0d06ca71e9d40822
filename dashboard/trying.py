"""Images that somebody wants to try a network on: what a request brings, checked. Pages and API share this."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParserError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dashboard.errors import RequestInvalid, RequestTooLarge
from dashboard.gallery import stored_dataset
from dashboard.serving import Bytes, ImageRef, SampleRef
from dashboard.visitor import SignedIn
from wire.serving import MAX_IMAGES, MAX_REQUEST_BYTES

_FRAMES_BYTES: Final = 1024 * 1024
"""What names and boundaries of a form may take besides the images."""


class SampleChoice(BaseModel):
    """An image of a dataset, known by the import that made it."""

    model_config = ConfigDict(extra="forbid")

    dataset: int
    id: int = Field(ge=0)


class TryRequest(BaseModel):
    """What a request without files holds."""

    model_config = ConfigDict(extra="forbid")

    sample: SampleChoice


def images_of(request: SignedIn, *, at_most: int = MAX_IMAGES) -> list[ImageRef]:
    """The files of a form as ``files``, or the sample that a JSON object names.

    Raises:
        RequestInvalid: none, too many, or no such form.
        RequestTooLarge: more than one request may bring.
        NotFound: the sample's dataset is not there for this user.
    """
    _check_size(request)
    if (request.content_type or "") == "multipart/form-data":
        return _files(request, at_most)
    chosen = _try_request(request).sample
    return [SampleRef(stored_dataset(request.user, chosen.dataset).path, chosen.id)]


def image_of(request: SignedIn) -> ImageRef:
    """The only one; raises what ``images_of`` does."""
    (image,) = images_of(request, at_most=1)
    return image


def _check_size(request: HttpRequest) -> None:
    """Before a byte is parsed."""
    n_bytes = int(request.META.get("CONTENT_LENGTH") or 0)
    if n_bytes > MAX_REQUEST_BYTES + _FRAMES_BYTES:
        raise RequestTooLarge(
            f"The request holds {n_bytes / 2**20:.0f} MiB; at most {MAX_REQUEST_BYTES / 2**20:.0f} MiB are taken.",
            hint="Send fewer images at once, or classify them as a job.",
        )


def _files(request: HttpRequest, at_most: int) -> list[ImageRef]:
    try:
        files: list[Any] = request.FILES.getlist("files")
    except MultiPartParserError as problem:
        raise RequestInvalid(f"The form cannot be read: {problem}", hint="Send it again.") from None
    if not 1 <= len(files) <= at_most:
        wanted = "One image is" if at_most == 1 else f"1 to {at_most} images are"
        raise RequestInvalid(
            f"{wanted} taken at once; {len(files)} came as 'files'.",
            hint="Send them in several requests, or classify them as a job.",
        )
    return [Bytes(file.name or "image", file.read()) for file in files]


def _try_request(request: HttpRequest) -> TryRequest:
    try:
        return TryRequest.model_validate_json(request.body)
    except RequestDataTooBig:
        raise RequestTooLarge("The JSON object is too large.", hint="Send images as the files of a form.") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "body"
        hint = 'Send a form with "files", or {"sample": {"dataset": 1, "id": 1}}.'
        raise RequestInvalid(f"{field}: {first['msg']}", hint=hint, fields={field: first["msg"]}) from None
