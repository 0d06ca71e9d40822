"""The answers that are pictures of a dataset: drawn anew for a screen, or the bytes as they came to be kept as a file.

What somebody uploaded is never shown by a browser as it is: a picture is re-encoded by another process, and the
original only leaves as a download of no type.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header

from dashboard.errors import RequestInvalid
from dashboard.gallery import StoredDataset
from dashboard.serving import picture
from wire.errors import NotFound

LEAST_PX: Final = 16
MOST_PX: Final = 2048
KEPT: Final = "private, max-age=31536000, immutable"
"""A dataset never changes. Private: whoever keeps it for several people does not ask who may see it."""


def px_of(typed: str) -> int | None:
    """The longest side that an address asks for; None where it asks for all of it.

    Raises:
        RequestInvalid: not a whole number of that range.
    """
    if not typed:
        return None
    if typed.isdecimal() and len(typed) < 6 and LEAST_PX <= int(typed) <= MOST_PX:
        return int(typed)
    raise RequestInvalid(
        f"px is {typed!r}.", hint=f"Give a whole number from {LEAST_PX} to {MOST_PX}, or leave it out."
    )


def picture_answer(request: HttpRequest, dataset: StoredDataset, sample_id: int, px: int | None) -> HttpResponseBase:
    """A sample, re-encoded; nothing is drawn for a browser that has it already.

    Raises:
        NotFound: the dataset has no such sample.
        ImageInvalid, ServeUnavailable: it cannot be drawn.
    """
    etag = f'"{dataset.sha256[:16]}-{sample_id}-{px or "full"}"'
    if known := get_conditional_response(request, etag=etag):
        response = known
    else:
        made = picture(dataset.path, sample_id, px=px)
        response = _of_no_other_type(HttpResponse(made.data, content_type=made.mime))
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = KEPT
    return response


def mean_answer(request: HttpRequest, dataset: StoredDataset) -> HttpResponseBase:
    """The mean image, which the import drew itself.

    Raises:
        NotFound: the dataset was made before there were any.
    """
    etag = f'"{dataset.sha256[:16]}-mean"'
    if known := get_conditional_response(request, etag=etag):
        response = known
    else:
        try:
            data = dataset.dir.mean_image_path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{dataset.job.title} has no mean image.", hint="Import the images again.") from None
        response = _of_no_other_type(HttpResponse(data, content_type="image/png"))
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = KEPT
    return response


def original_answer(dataset: StoredDataset, sample_id: int) -> HttpResponse:
    """The file byte for byte as it was imported, to be saved and not shown.

    Raises:
        NotFound: the dataset has no such sample.
    """
    with dataset.open() as reader:
        name = PurePosixPath(reader.sample(sample_id).name).name
        response = _of_no_other_type(
            HttpResponse(reader.image_bytes(sample_id), content_type="application/octet-stream")
        )
    header = content_disposition_header(True, name or str(sample_id))  # noqa: FBT003 - Django takes no keyword here
    response.headers["Content-Disposition"] = header or "attachment"
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _of_no_other_type(response: HttpResponse) -> HttpResponse:
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
