"""Large files that leave in pieces: read beside the event loop, a little in memory, and resumed where they broke off.

Source of ranges: RFC 9110, section 14. One range is answered; several at once get all of it, which is allowed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_UNSAFE: Final = re.compile(r"[^\w .,()+=@-]+")
_MOST_IN_A_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes of a known number, which are the same whenever they are asked for."""

    filename: str
    n_bytes: int
    sha256: str
    """Of the content, or of what it follows from: names this version of it."""
    stream: Callable[[int, int], Iterator[bytes]]
    """The bytes from the first number up to the second."""
    content_type: str = "application/octet-stream"


def download_answer(request: HttpRequest, download: Download) -> HttpResponseBase:
    """All of it, or the range that the request asks for."""
    etag = f'"{download.sha256[:32]}"'
    span = _span(request, download.n_bytes, etag)
    if span is None:
        response: HttpResponseBase = HttpResponse(status=416)
        response.headers["Content-Range"] = f"bytes */{download.n_bytes}"
    else:
        start, stop = span
        is_part = (start, stop) != (0, download.n_bytes)
        response = StreamingHttpResponse(
            _pieces(download.stream(start, stop)), status=206 if is_part else 200, content_type=download.content_type
        )
        response.headers["Content-Length"] = str(stop - start)
        if is_part:
            response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{download.n_bytes}"
        header = content_disposition_header(True, download.filename)  # noqa: FBT003 - Django takes no keyword here
        response.headers["Content-Disposition"] = header or "attachment"
    response.headers["Accept-Ranges"] = "bytes"
    response.headers["ETag"] = etag
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Who may have it may change: it is asked for anew each time.
    response.headers["Cache-Control"] = "private, no-cache"
    return response


def filename_of(title: str, ending: str, *, otherwise: str) -> str:
    """A name that is safe to save under, in the letters of the title."""
    stem = _UNSAFE.sub("-", title).strip(" .-")[:_MOST_IN_A_NAME].strip(" .-")
    return f"{stem or otherwise}{ending}"


def _span(request: HttpRequest, n_bytes: int, etag: str) -> tuple[int, int] | None:
    """First byte and the one after the last; None where there are no such bytes."""
    whole = (0, n_bytes)
    asked = _RANGE.fullmatch(request.headers.get("Range", "").strip())
    # What has become another file since the first part is sent anew.
    if asked is None or request.headers.get("If-Range", etag) != etag:
        return whole
    first, last = asked.groups()
    if not first and not last:
        return whole
    if not first:
        return (max(0, n_bytes - int(last)), n_bytes) if int(last) else None
    start = int(first)
    stop = min(int(last) + 1, n_bytes) if last else n_bytes
    if last and int(last) < start:
        return whole
    return (start, stop) if start < n_bytes else None


async def _pieces(stream: Iterator[bytes]) -> AsyncIterator[bytes]:
    # Files are read beside the event loop, one piece at a time.
    while piece := await sync_to_async(_next_of)(stream):
        yield piece


def _next_of(stream: Iterator[bytes]) -> bytes:
    """Empty at the end."""
    return next(stream, b"")
