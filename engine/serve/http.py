"""HTTP over a unix socket: who is let in and how much of it, and every error as JSON. What is answered is elsewhere."""

from __future__ import annotations

import logging
import select
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.faults import as_fovea_error
from engine.serve.pictures import Picture
from wire.errors import FoveaError, ImageInvalid, NotFound, ServeUnavailable, SpecInvalid, UserError
from wire.serving import JSON_BYTES_HEADER, MAX_JSON_BYTES, MAX_REQUEST_BYTES, Problem, SentImage

N_REQUESTS = 32
"""At once; others wait in the socket's queue."""
N_WAITING = 12
"""Predictions that may wait for their turn; the rest of the requests is left for pictures."""
N_BODIES = 4
"""Predictions whose images are in memory."""
WAIT_AT_MOST_S = 30.0
_SOCKET_TIMEOUT_S = 60.0
_PIECE_BYTES = 1 << 16
_LINGER_S = 2.0
"""For how long the unread rest of a refused request is waited for."""

log = logging.getLogger("engine.serve")

Sent = Sequence[memoryview]
"""The bytes of each announced image."""


@dataclass(frozen=True, slots=True)
class Route:
    asked: type[BaseModel]
    answer: Callable[[Any, Sent], BaseModel | Picture]
    is_prediction: bool = True
    """Takes its turn, because it may bring images and keeps the processor busy."""


class Turns:
    """Lets few predictions in at once, and tells those that would wait for too long."""

    def __init__(self) -> None:
        self._waiting = threading.BoundedSemaphore(N_WAITING)
        self._bodies = threading.BoundedSemaphore(N_BODIES)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold one of the places.

        Raises:
            ServeUnavailable: too many wait, or the wait was too long.
        """
        if not self._waiting.acquire(blocking=False):
            raise _busy()
        try:
            if not self._bodies.acquire(timeout=WAIT_AT_MOST_S):
                raise _busy()
            try:
                yield
            finally:
                self._bodies.release()
        finally:
            self._waiting.release()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, socket_path: Path, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self.turns = Turns()
        self.last_asked_s = time.monotonic()
        self._slots = threading.BoundedSemaphore(N_REQUESTS)
        self._n_running = 0
        self._counting = threading.Lock()
        super().__init__(str(socket_path), Handler)

    @property
    def n_running(self) -> int:
        return self._n_running

    def process_request(self, request: Any, client_address: Any) -> None:
        """Called by the thread that accepts: while every slot is taken it accepts nobody else."""
        self._slots.acquire()
        with self._counting:
            self._n_running += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self._n_running -= 1
                self.last_asked_s = time.monotonic()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # The asker went away, or sent what is no HTTP; nobody is left to tell.
        log.warning("A request was not answered: %s", sys.exception())

    def finish_queue(self, *, patience_s: float) -> None:
        """Answer those that connected before the socket was taken away, and wait for all that runs."""
        self.timeout = 0
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and (self._has_queued() or self._n_running):
            self.handle_request()
            time.sleep(0.01)

    def _has_queued(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])


class Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _SOCKET_TIMEOUT_S
    _is_body_read = False

    def do_GET(self) -> None:
        if self.path != "/health":
            self._refuse(NotFound(f"There is nothing at {self.path!r}.", hint="Ask by POST."))
            return
        self._reply(200, "application/json", b"{}")

    def do_POST(self) -> None:
        try:
            route = self._route()
            if route.is_prediction:
                with self.server.turns.turn():
                    made = self._answered(route)
            else:
                made = self._answered(route)
        except Exception as raised:  # whatever it was, the asker gets an answer
            error = as_fovea_error(raised)
            if not isinstance(error, UserError | ServeUnavailable):
                log.exception("%s could not be answered.", self.path)
            self._refuse(error)
            return
        if isinstance(made, Picture):
            self._reply(200, made.mime, made.data)
        else:
            self._reply(200, "application/json", made.model_dump_json().encode())

    def _route(self) -> Route:
        route = self.server.routes.get(self.path.lstrip("/"))
        if route is None:
            raise NotFound(f"There is nothing at {self.path!r}.", hint=f"Known: {', '.join(self.server.routes)}.")
        return route

    def _answered(self, route: Route) -> BaseModel | Picture:
        n_bytes, n_json_bytes = self._length("Content-Length"), self._length(JSON_BYTES_HEADER)
        limit_bytes = MAX_REQUEST_BYTES if route.is_prediction else 0
        if n_json_bytes > min(n_bytes, MAX_JSON_BYTES):
            raise SpecInvalid(f"A request's JSON cannot have {n_json_bytes} bytes.", hint="Send fewer images.")
        if n_bytes - n_json_bytes > limit_bytes:
            raise ImageInvalid(
                f"The images of one request hold {(n_bytes - n_json_bytes) / 1e6:.1f} MB; "
                f"at most {limit_bytes / 1e6:.1f} MB are taken.",
                hint="Send fewer or smaller images at once.",
            )
        body = memoryview(self.rfile.read(n_bytes))
        self._is_body_read = True
        if len(body) != n_bytes:
            raise SpecInvalid("The request was cut short.", hint="Send it again.")
        try:
            asked = route.asked.model_validate_json(bytes(body[:n_json_bytes]))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the request"
            raise SpecInvalid(f"The request is not valid at {where}: {first['msg']}.", hint="Correct it.") from None
        return route.answer(asked, _parted(body[n_json_bytes:], asked))

    def _length(self, header: str) -> int:
        text = self.headers.get(header, "")
        if not (text.isascii() and text.isdecimal()):
            raise SpecInvalid(f"The request has no usable header {header}: {text!r}.", hint="State it in bytes.")
        return int(text)

    def _refuse(self, error: FoveaError) -> None:
        problem = Problem(code=error.code, message=error.message, hint=error.hint)
        self._reply(_status(error), "application/json", problem.model_dump_json().encode())
        if not self._is_body_read:
            self._drop_body()

    def _drop_body(self) -> None:
        """Take what the asker is still sending: closed before that, its end breaks and it never reads the refusal."""
        n_left = MAX_JSON_BYTES + MAX_REQUEST_BYTES
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER_S)
            while n_left > 0 and (dropped := self.rfile.read1(_PIECE_BYTES)):
                n_left -= len(dropped)
        except OSError:
            log.debug("The asker of %s neither sends nor leaves.", self.path)

    def _reply(self, status: int, mime: str, data: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", mime)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            log.info("The asker of %s went away.", self.path)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        # A gallery asks for sixty pictures at once; that it did is no news.
        log.debug(format, *args)

    def address_string(self) -> str:
        return "local"


def _parted(data: memoryview, asked: BaseModel) -> list[memoryview]:
    """The bytes of each image that ``asked`` announces.

    Raises:
        SpecInvalid: there are more or fewer.
    """
    found = getattr(asked, "images", None) or [getattr(asked, "image", None)]
    lengths = [image.n_bytes for image in found if isinstance(image, SentImage)]
    if sum(lengths) != len(data):
        raise SpecInvalid(
            f"{sum(lengths)} bytes of images were announced and {len(data)} were sent.", hint="Send it again."
        )
    parts, start = [], 0
    for length in lengths:
        parts.append(data[start : start + length])
        start += length
    return parts


def _status(error: FoveaError) -> int:
    match error:
        case NotFound():
            return 404
        case UserError():
            return 400
        case ServeUnavailable():
            return 503
        case _:
            return 500


def _busy() -> ServeUnavailable:
    return ServeUnavailable("Too many images are being looked at right now.", hint="Try again in a few seconds.")
