"""A proxy before a unix socket whose connections can go dead without either end being told: nothing comes any more."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class HalfOpen:
    """Connections made before ``freeze`` stay open and carry nothing; those made afterwards work."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: set[socket.socket] = set()
        self._dead: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)
        for end in (self._listener, *self._open):
            end.close()

    def freeze(self) -> int:
        """How many connections are dead from now on."""
        self._dead |= self._open
        return len(self._dead) // 2

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._target))
                self._open |= {client, server}
                self._spawn(self._pump, client, server)
                self._spawn(self._pump, server, client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if source not in self._dead:
                    sink.sendall(chunk)
        if source not in self._dead:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)
