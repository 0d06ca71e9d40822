"""A crowd is worked through a few at a time; who waits too long is told when to come again."""

from __future__ import annotations

import asyncio
import json

import pytest

from dashboard import at_once
from dashboard.at_once import AtOnce
from dashboard.errors import ServerBusy


class Slow:
    """An application that answers once it may, and knows how many requests it had at once."""

    def __init__(self, messages=1):
        self.may_answer = asyncio.Event()
        self.n_now = self.n_most = 0
        self._n_messages = messages

    async def __call__(self, scope, receive, send):
        self.n_now += 1
        self.n_most = max(self.n_most, self.n_now)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for n in range(self._n_messages):
            await send({"type": "http.response.body", "body": b"x", "more_body": n + 1 < self._n_messages})
        await self.may_answer.wait()
        self.n_now -= 1


def scope(path="/", **headers):
    named = [(name.encode(), text.encode()) for name, text in headers.items()]
    return {"type": "http", "method": "GET", "path": path, "headers": named}


async def asked(application, path="/", **headers):
    told = []

    async def send(message):
        told.append(message)

    await application(scope(path, **headers), None, send)
    return told


async def settled(condition):
    while not condition():  # noqa: ASYNC110 - the other tasks are to run, and nothing tells when they have
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_no_more_than_so_many_at_once():
    inner = Slow()
    crowd = AtOnce(inner, most=3)
    requests = [asyncio.create_task(asked(crowd)) for _ in range(10)]
    await settled(lambda: inner.n_now == 3)
    health = asyncio.create_task(asked(crowd, "/healthz"))
    await settled(lambda: inner.n_now == 4)
    inner.may_answer.set()
    answers = await asyncio.gather(*requests, health)
    assert [each[0]["status"] for each in answers] == [200] * 11
    assert inner.n_most == 4


@pytest.mark.asyncio
async def test_a_file_that_is_sent_in_pieces_takes_no_place():
    inner = Slow(messages=2)
    crowd = AtOnce(inner, most=1)
    requests = [asyncio.create_task(asked(crowd)) for _ in range(5)]
    await settled(lambda: inner.n_now == 5)
    inner.may_answer.set()
    await asyncio.gather(*requests)


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/runs/1/", "fragment"])
async def test_who_finds_no_place_is_told_when_to_come_again(monkeypatch, plain_static_names, path):
    monkeypatch.setattr(at_once, "PATIENCE_S", 0.01)
    inner = Slow()
    crowd = AtOnce(inner, most=1)
    first = asyncio.create_task(asked(crowd))
    await settled(lambda: inner.n_now == 1)
    headers = {"HX-Request": "true"} if path == "fragment" else {}
    start, body = await asked(crowd, "/" if path == "fragment" else path, **headers)
    assert (start["status"], dict(start["headers"])[b"Retry-After"]) == (503, b"5")
    text = body["body"].decode()
    if path.startswith("/api/"):
        assert json.loads(text)["error"]["code"] == ServerBusy.code
    else:
        assert f'data-error-code="{ServerBusy.code}"' in text
        assert ("<html" in text) == (path != "fragment")
    inner.may_answer.set()
    await first
    assert inner.n_most == 1
