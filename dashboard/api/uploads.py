"""Uploads: tus 1.0 for their bytes, JSON for lists. What a PATCH brings is taken by ``dashboard.uploads``."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Final

from django.http import HttpResponse
from django.utils.http import http_date
from ninja import Router, Schema

from dashboard.api.bodies import answers
from dashboard.errors import ContentTypeWrong, HeaderInvalid, Refusal, VersionUnsupported, answer
from dashboard.uploads import ADMISSION, claims
from dashboard.visitor import SignedIn
from jobs.models import Upload
from jobs.room import max_upload_bytes
from jobs.services import offset_of, upload_begin, upload_complete, upload_delete, upload_for, uploads_of
from wire.errors import FoveaError

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,termination,expiration"
PIECE_TYPE: Final = "application/offset+octet-stream"
_NUMBER = re.compile(r"[0-9]{1,18}")

router = Router()


class UploadInfo(Schema):
    id: str
    name: str
    """What the person's machine calls it; data, never a path."""
    size: int
    offset: int
    """How many bytes have arrived: where the next piece begins."""
    complete: bool
    created_at: datetime
    expires_at: datetime
    fingerprint: str
    """By which a browser knows the same file again."""


def tus(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The protocol's own headers, on refusals too."""

    @wraps(view)
    def speaking(request: SignedIn, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            _check_version(request)
            response = view(request, *args, **kwargs)
        except (FoveaError, Refusal) as error:
            response = answer(request, error)
        response.headers["Tus-Resumable"] = VERSION
        response.headers["Cache-Control"] = "no-store"
        if response.status_code == VersionUnsupported.status:
            response.headers["Tus-Version"] = VERSION
        return response

    return speaking


def _check_version(request: SignedIn) -> None:
    # Removing works without a client that speaks the protocol; OPTIONS asks what is spoken.
    spoken = request.headers.get("Tus-Resumable", VERSION if request.method in {"DELETE", "OPTIONS"} else "")
    if spoken != VERSION and request.method != "OPTIONS":
        raise VersionUnsupported(
            f"This server speaks tus {VERSION}, and {spoken or 'no version'} was asked for.",
            hint=f"Send the header Tus-Resumable: {VERSION}.",
        )


@router.get("", response=answers(list[UploadInfo]), summary="Your uploads")
def uploads_list(request: SignedIn) -> list[UploadInfo]:
    """Newest first: those that go on, and those that are kept to be imported."""
    return [_info(upload) for upload in uploads_of(request.user)]


@router.get("/{upload_id}", response=answers(UploadInfo), summary="One upload")
def upload_get(request: SignedIn, upload_id: str) -> UploadInfo:
    return _info(upload_for(request.user, upload_id))


@router.api_operation(["OPTIONS"], "/", response=answers(None, status=204), summary="What the upload protocol can do")
@tus
def uploads_options(request: SignedIn) -> HttpResponse:
    """`Tus-Version`, `Tus-Extension` and `Tus-Max-Size`."""
    headers = {"Tus-Version": VERSION, "Tus-Extension": EXTENSIONS, "Tus-Max-Size": str(max_upload_bytes())}
    return HttpResponse(status=204, headers=headers)


@router.post("/", response=answers(None, status=201), summary="Begin an upload (tus 1.0)")
@tus
def upload_create(request: SignedIn) -> HttpResponse:
    """`Location` says where the bytes go.

    Headers: `Tus-Resumable: 1.0.0`, `Upload-Length` in bytes, `Upload-Metadata` with `filename` and, if you like,
    `fingerprint`, in base64.
    """
    metadata = _metadata(request)
    if not metadata.get("filename"):
        raise HeaderInvalid("Upload-Metadata holds no filename.", hint="Send it as: filename, a blank, base64 of it.")
    size = _number(request, "Upload-Length")
    upload = upload_begin(request.user, metadata["filename"], size, metadata.get("fingerprint", ""))
    location = f"{request.path.rstrip('/')}/{upload.pk}"
    return HttpResponse(status=201, headers={"Location": location, "Upload-Offset": "0"} | _expires(upload))


@router.api_operation(["HEAD"], "/{upload_id}", response=answers(None), summary="Where an upload goes on (tus 1.0)")
@tus
def upload_head(request: SignedIn, upload_id: str) -> HttpResponse:
    """`Upload-Offset` is what has arrived, `Upload-Length` the whole."""
    upload = upload_for(request.user, upload_id)
    upload_complete(upload)
    told = {"Upload-Offset": str(offset_of(upload)), "Upload-Length": str(upload.size)}
    return HttpResponse(headers=told | _expires(upload))


@router.patch("/{upload_id}", response=answers(None, status=204), summary="Bring a piece of an upload (tus 1.0)")
@tus
def upload_append(request: SignedIn, upload_id: str) -> HttpResponse:
    """The body is written as it arrives; after a cut go on from where `HEAD` says.

    Headers: `Tus-Resumable: 1.0.0`, `Content-Type: application/offset+octet-stream`, `Upload-Offset`. `409` another
    offset, `413` more than was announced, `423` another request brings this upload, `507` the disk is full: what has
    arrived is kept.
    """
    upload = upload_for(request.user, upload_id)
    if request.content_type != PIECE_TYPE:
        raise ContentTypeWrong(
            f"A piece of an upload came as {request.content_type or 'nothing that was named'}.",
            hint=f"Send the header Content-Type: {PIECE_TYPE}.",
        )
    offset = _number(request, "Upload-Offset")
    # Only this far comes a request whose bytes are taken in front of Django.
    admission = _scope(request)[ADMISSION]
    admission.upload, admission.offset = upload, offset
    return HttpResponse(status=204)


@router.delete("/{upload_id}", response=answers(None, status=204), summary="Remove an upload")
@tus
def upload_remove(request: SignedIn, upload_id: str) -> HttpResponse:
    """At once; refused while an import or a classification that has not ended reads it."""
    upload_delete(request.user, upload_id)
    claims.end(upload_id)
    return HttpResponse(status=204)


def _scope(request: Any) -> dict[str, Any]:
    """Of a request that came by ASGI; Django's type does not tell."""
    scope: dict[str, Any] = request.scope
    return scope


def _info(upload: Upload) -> UploadInfo:
    offset = offset_of(upload)
    return UploadInfo(
        id=upload.pk,
        name=upload.name,
        size=upload.size,
        offset=offset,
        complete=offset == upload.size,
        created_at=upload.created_at,
        expires_at=upload.expires_at,
        fingerprint=upload.fingerprint,
    )


def _expires(upload: Upload) -> dict[str, str]:
    return {"Upload-Expires": http_date(upload.expires_at.timestamp())}


def _number(request: SignedIn, name: str) -> int:
    text = request.headers.get(name, "")
    if not _NUMBER.fullmatch(text):
        raise HeaderInvalid(f"{name} is {text or 'missing'}.", hint=f"Send {name} as a whole number of bytes.")
    return int(text)


def _metadata(request: SignedIn) -> dict[str, str]:
    """``filename d29ybGQ=,fingerprint YWJj`` -> names and texts."""
    found: dict[str, str] = {}
    for pair in request.headers.get("Upload-Metadata", "").split(","):
        name, _, encoded = pair.strip().partition(" ")
        try:
            found[name] = base64.b64decode(encoded.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise HeaderInvalid(
                f"Upload-Metadata: {name or 'a pair'} cannot be read.", hint="Send base64 of UTF-8 text."
            ) from None
    return found
