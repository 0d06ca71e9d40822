"""A small client of resumable uploads, over a real connection that can be cut anywhere."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}


def metadata(**texts: str) -> str:
    return ",".join(f"{name} {b64encode(text.encode()).decode()}" for name, text in texts.items())


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


class TusClient:
    """One person's, by token."""

    def __init__(self, address: str, token: str, *, timeout_s: float = 60) -> None:
        self._place = urlsplit(address).netloc
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout_s

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Answered:
        connection = http.client.HTTPConnection(self._place, timeout=self._timeout_s)
        try:
            connection.request(method, path, body, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def begin(self, size_bytes: int, name: str = "pets.zip") -> str:
        """The path of a new upload."""
        headers = {**TUS, "Upload-Length": str(size_bytes), "Upload-Metadata": metadata(filename=name)}
        answer = self.call("POST", "/api/v1/uploads/", headers)
        assert answer.status == 201, answer.body
        return answer.headers["location"]

    def offset(self, path: str) -> int:
        answer = self.call("HEAD", path, TUS)
        assert answer.status == 200, answer
        return int(answer.headers["upload-offset"])

    def send(self, path: str, offset: int, blocks: Iterable[bytes], *, n_bytes: int) -> Answered | None:
        """One piece; None where the blocks end before the bytes that were announced: the connection is cut there."""
        connection = http.client.HTTPConnection(self._place, timeout=self._timeout_s)
        try:
            connection.putrequest("PATCH", path)
            told = {**self._headers, **PIECE, "Upload-Offset": str(offset), "Content-Length": str(n_bytes)}
            for name, value in told.items():
                connection.putheader(name, value)
            connection.endheaders()
            sent = 0
            for block in blocks:
                connection.send(block)
                sent += len(block)
            if sent < n_bytes:
                return None
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()
