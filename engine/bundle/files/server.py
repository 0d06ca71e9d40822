"""A small HTTP server around the model, to begin from: ``python server.py``.

    curl --data-binary @picture.jpg http://127.0.0.1:8080/

``POST /`` takes one encoded image and answers with JSON, ``GET /health`` says that the model is loaded. It knows
neither users nor encryption: before other machines reach it, put a server in front of it that does.

A picture of 80 million pixels, the most that is taken, needs about 3 GB of memory while it is looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from predict import ImageUnreadable, Model

MOST_BYTES = 32 * 2**20
PATIENCE_S = 30.0
MOST_CONNECTIONS = 16
"""Each may hold an image; more are told to come again."""
BUSY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


class Handler(BaseHTTPRequestHandler):
    """One connection, one request: what came wrong is not read to its end."""

    server: Server
    server_version = "predict"
    timeout = PATIENCE_S  # seconds without a byte

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(HTTPStatus.OK, {"model": self.server.model.name})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "POST an image to /, or GET /health"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/":
            self._answer(HTTPStatus.NOT_FOUND, {"error": "POST an image to /"})
        elif not (length.isascii() and length.isdecimal()):
            self._answer(HTTPStatus.LENGTH_REQUIRED, {"error": "Content-Length is missing"})
        elif len(length) > 12 or int(length) > MOST_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"an image has {MOST_BYTES} bytes at most"})
        else:
            self._predict(self.rfile.read(int(length)))

    def _predict(self, data: bytes) -> None:
        # Requests are read side by side; pictures are decoded and looked at a few at a time, for that takes memory.
        with self.server.turns:
            try:
                top = self.server.model.answer(data)
            except ImageUnreadable as error:
                self._answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
                return
            except Exception as error:  # noqa: BLE001 - what a runtime may raise, such as for want of memory
                self.log_error("%s", repr(error))
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the model gave no answer"})
                return
        self._answer(HTTPStatus.OK, {"model": self.server.model.name, "top": top})

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], model: Model, *, at_once: int) -> None:
        super().__init__(address, Handler)
        self.model = model
        self.turns = threading.BoundedSemaphore(at_once)
        self.places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(0)  # it is not waited for
        with suppress(OSError):
            request.send(BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # somebody who went away is no error
            super().handle_error(request, client_address)


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer for pictures over HTTP.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 listens to other machines, too")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--model", default="", help="such as onnx-int8; README.md lists them")
    parser.add_argument("--at-once", type=int, default=2, help="pictures looked at at the same time (2)")
    asked = parser.parse_args()
    n_threads = max(1, (os.cpu_count() or 1) // max(1, asked.at_once))
    server = Server((asked.host, asked.port), Model(asked.model, n_threads=n_threads), at_once=max(1, asked.at_once))
    print(f"{server.model.name} at http://{asked.host}:{server.server_address[1]}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
