"""Takes the bytes of uploads as they arrive.

Django reads a whole body before it calls a view, so the PATCH requests of tus are taken here, in front of it. Django is
asked first, by the same request without its body: host, HTTPS, session, CSRF, token, owner and headers are judged
where those of every other request are (``dashboard.api.uploads.upload_append``). What follows is one writer an upload:
a claim in this process, a lock on the file against others.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.utils.http import http_date

from dashboard.addresses import inner_path
from dashboard.body_limit import content_length, no_body
from dashboard.database import RETRY_AFTER_S, unavailable
from dashboard.errors import OffsetWrong, Refusal, TooManyBytes, UploadStalled, problem_of
from dashboard.upload_claims import Claim, Claims, locked
from jobs.models import Upload
from jobs.services import offset_of, upload_complete, upload_continue
from jobs.sizes import size_text
from jobs.upload_files import UploadBusy, UploadFile
from wire.errors import DiskFull, FoveaError

ADMISSION: Final = "fovea.admission"
"""Key of the ASGI scope under which Django leaves whom it let in."""
TUS_HEADERS: Final = ((b"Tus-Resumable", b"1.0.0"), (b"Cache-Control", b"no-store"))
BLOCK_BYTES: Final = 2**20
LOOK_EVERY_BYTES: Final = 64 * 2**20
STALLED_AFTER_S = 30.0

_PIECE = re.compile(r"/api/v1/uploads/[^/]+/?")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OF_THE_BODY = frozenset({b"content-length", b"transfer-encoding", b"expect"})

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
P = ParamSpec("P")
T = TypeVar("T")

claims = Claims()


@dataclass
class Admission:
    """Filled by the view that lets a piece in."""

    upload: Upload | None = None
    offset: int = 0


@dataclass
class _Answer:
    """What Django answers, kept until it is known whether that is the last word."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    async def take(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        """Not the view's alone: a session may have ended meanwhile."""
        return int(self.messages[0]["status"]) if self.messages else 500

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Those that are about the visit and not about the body."""
        return [each for each in self.messages[0]["headers"] if not each[0].lower().startswith(b"content-")] + [
            each for each in self.messages[0]["headers"] if each[0].lower().startswith(b"content-security-")
        ]


class UploadPieces:
    """ASGI: the application, with the pieces of uploads taken in front of it."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "PATCH" or not _PIECE.fullmatch(inner_path(scope)):
            await self._application(scope, receive, send)
            return
        admission, answer = Admission(), _Answer()
        await self._application(_without_body(scope, admission), no_body(), answer.take)
        if admission.upload is None or answer.status != 204:
            for message in answer.messages:
                await send(message)
            return
        try:
            offset = await _Piece(admission.upload, admission.offset, receive).take(content_length(scope))
        except (FoveaError, Refusal) as error:
            await _refuse(send, answer.headers, error)
        except _Cut:
            return
        else:
            told = [(b"Upload-Offset", b"%d" % offset), (b"Upload-Expires", _expires(admission.upload))]
            await _respond(send, 204, [*answer.headers, *told])


class _Cut(Exception):
    """The connection is gone: there is nobody to answer."""


class _Piece:
    """One PATCH request: from its first byte to its last, or to where it was cut."""

    def __init__(self, upload: Upload, offset: int, receive: Receive) -> None:
        self._upload = upload
        self._offset = offset
        self._receive = receive
        self._held = bytearray()
        self._looked_at_bytes = offset

    async def take(self, content_length: int | None) -> int:
        """Where the next piece begins."""
        with await claims.claim(self._upload.pk) as claim:
            file = await self._opened()
            try:
                self._check_begin(file, content_length)
                # With every piece, for they are small: a browser's never reach as far as the next look.
                await _in_database(upload_continue, self._upload, file.size_bytes)
                await self._take_all(file, claim)
                if file.size_bytes == self._upload.size:
                    await self._on_disk(file.sync)
                    await _in_database(upload_complete, self._upload)
                return file.size_bytes
            finally:
                await asyncio.to_thread(file.close)

    async def _opened(self) -> UploadFile:
        try:
            return await self._on_disk(UploadFile, self._upload.pk)
        except UploadBusy:
            raise locked(self._upload.pk) from None

    def _check_begin(self, file: UploadFile, content_length: int | None) -> None:
        if file.size_bytes != self._offset:
            raise OffsetWrong(
                f"{self._upload.name}: this piece begins at byte {self._offset:,}, the last one ended at"
                f" {file.size_bytes:,}.",
                hint="Ask with HEAD where to go on.",
            )
        if self._offset + (content_length or 0) > self._upload.size:
            raise self._too_long()

    def _too_long(self) -> TooManyBytes:
        return TooManyBytes(
            f"{self._upload.name} was announced with {self._upload.size:,} bytes, and more came.",
            hint="Begin the upload again; the file has changed since.",
        )

    async def _take_all(self, file: UploadFile, claim: Claim) -> None:
        more = True
        while more:
            try:
                more = await self._hear(claim)
            except (_Cut, Refusal):
                with suppress(DiskFull):
                    await self._write(file)
                raise
            n_bytes = file.size_bytes + len(self._held)
            if n_bytes > self._upload.size:
                raise self._too_long()
            # The very last bytes wait for the end of the request: one byte more, and they are not the file's.
            if len(self._held) >= BLOCK_BYTES and n_bytes < self._upload.size:
                await self._write(file)
                await self._look(file)
        await self._write(file)

    async def _hear(self, claim: Claim) -> bool:
        """Take what has come; False at the end of the request."""
        try:
            async with claim.patience(STALLED_AFTER_S):
                message = await self._receive()
        except TimeoutError:
            if claim.given_up:
                raise locked(self._upload.pk) from None
            raise UploadStalled(
                f"{self._upload.name}: no byte came for {STALLED_AFTER_S:g} s.", hint="Ask with HEAD where to go on."
            ) from None
        if message["type"] == "http.disconnect":
            raise _Cut
        self._held += message.get("body", b"")
        return bool(message.get("more_body", False))

    async def _write(self, file: UploadFile) -> None:
        if not self._held:
            return
        block, self._held = self._held, bytearray()
        await self._on_disk(file.append, block)

    async def _on_disk(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(function, *args, **kwargs)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._disk_full(error) from error
            raise

    def _disk_full(self, error: OSError) -> DiskFull:
        missing_bytes = self._upload.size - offset_of(self._upload)
        return DiskFull(
            f"{self._upload.name} cannot be written any further ({error.strerror}):"
            f" {size_text(missing_bytes)} ({missing_bytes:,} bytes) are missing.",
            hint="What has arrived is kept. Make room on the server's disk, then let the upload go on.",
        )

    async def _look(self, file: UploadFile) -> None:
        if file.size_bytes - self._looked_at_bytes >= LOOK_EVERY_BYTES:
            self._looked_at_bytes = file.size_bytes
            await _in_database(upload_continue, self._upload, file.size_bytes)


async def _in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    def call() -> T:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        except DatabaseError as error:
            raise unavailable(error) or error from error
        finally:
            close_old_connections()

    return await asyncio.to_thread(call)


def _without_body(scope: dict[str, Any], admission: Admission) -> dict[str, Any]:
    headers = [each for each in scope["headers"] if each[0].lower() not in _OF_THE_BODY]
    return {**scope, "headers": [*headers, (b"content-length", b"0")], ADMISSION: admission}


def _expires(upload: Upload) -> bytes:
    return http_date(upload.expires_at.timestamp()).encode()


async def _refuse(send: Send, headers: list[tuple[bytes, bytes]], error: FoveaError | Refusal) -> None:
    problem = problem_of(error)
    body = json.dumps(problem.body()).encode()
    more = [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(body))]
    if problem.status == 503:
        more.append((b"Retry-After", b"%d" % RETRY_AFTER_S))
    if isinstance(error, UploadStalled):
        more.append((b"Connection", b"close"))
    await _respond(send, problem.status, [*headers, *more], body)


async def _respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    given = {name.lower() for name, _ in headers}
    own = [each for each in TUS_HEADERS if each[0].lower() not in given]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *own]})
    await send({"type": "http.response.body", "body": body})
