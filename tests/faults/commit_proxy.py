"""The network between Django and PostgreSQL, which loses the answer to a COMMIT: it is done, and nobody knows."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""A simple query, as libpq sends it. https://www.postgresql.org/docs/current/protocol-message-formats.html"""
COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"


class CommitProxy:
    """Forwards to a port of this machine; ``loses`` is asked at each COMMIT whether its answer is lost."""

    def __init__(self, target_port: int, loses: Callable[[], bool]) -> None:
        self._target_port = target_port
        self._loses = loses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_cut = False
        self.n_lost = 0
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close(self._listener)
        for end in list(self._open):
            close(end)
        for thread in self._threads:
            thread.join(timeout=5)

    def _spawn(self, target: Callable[..., None], *ends: socket.socket) -> None:
        thread = threading.Thread(target=target, args=ends, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                close(client)
                continue
            server = socket.create_connection(("127.0.0.1", self._target_port))
            self._open |= {client, server}
            connection = _Connection(self, client, server)
            self._spawn(connection.forward)
            self._spawn(connection.back)

    def lose(self) -> bool:
        lost = self._loses()
        self.n_lost += lost
        return lost


class _Connection:
    def __init__(self, proxy: CommitProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._loses = False

    def forward(self) -> None:
        with suppress(OSError):
            while chunk := self._client.recv(65536):
                if chunk.endswith(COMMIT):
                    self._loses = self._proxy.lose()
                self._server.sendall(chunk)
        self._end()

    def back(self) -> None:
        with suppress(OSError):
            while chunk := self._server.recv(65536):
                if self._loses and COMMITTED in chunk:
                    break
                self._client.sendall(chunk)
        self._end()

    def _end(self) -> None:
        close(self._client)
        close(self._server)


def close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
