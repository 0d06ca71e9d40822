"""A crowd is worked through a few at a time; who waits too long is told when to come again."""

from __future__ import annotations

import asyncio
import json

import pytest

from dashboard import at_once
from dashboard.at_once import AtOnce
from dashboard.body_limit import no_body
from dashboard.errors import ServerBusy


class Slow:
    """An application that answers once it may, and knows how many requests it had at once."""

    def __init__(self, messages=1):
        self.may_answer = asyncio.Event()
        self.n_now = self.n_most = 0
        self._n_messages = messages

    async def __call__(self, scope, receive, send):
        while (await receive()).get("more_body"):
            pass
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


async def asked(application, path="/", *, receive=no_body, **headers):
    told = []

    async def send(message):
        told.append(message)

    await application(scope(path, **headers), receive(), send)
    return told


def half_a_body():
    """A client that begins to send and falls silent."""
    messages = [{"type": "http.request", "body": b"x", "more_body": True}]

    async def receive():
        if messages:
            return messages.pop()
        return await asyncio.Event().wait()

    return receive


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
async def test_who_sends_slowly_keeps_nobody_out():
    inner = Slow()
    inner.may_answer.set()
    crowd = AtOnce(inner, most=1)
    slow = [asyncio.create_task(asked(crowd, receive=half_a_body)) for _ in range(5)]
    await asyncio.sleep(0)
    assert (await asked(crowd))[0]["status"] == 200
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


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
    told = dict(start["headers"])
    assert (start["status"], told[b"Retry-After"]) == (503, b"5")
    assert (told[b"X-Content-Type-Options"], told[b"X-Frame-Options"]) == (b"nosniff", b"DENY")
    assert b"script-src 'self'" in told[b"Content-Security-Policy"]
    text = body["body"].decode()
    if path.startswith("/api/"):
        assert json.loads(text)["error"]["code"] == ServerBusy.code
    else:
        assert f'data-error-code="{ServerBusy.code}"' in text
        assert ("<html" in text) == (path != "fragment")
    inner.may_answer.set()
    await first
    assert inner.n_most == 1


@pytest.mark.asyncio
async def test_below_a_folder_the_page_leads_back_to_it(monkeypatch, plain_static_names, settings):
    settings.FORCE_SCRIPT_NAME = "/tools/fovea"
    crowd = AtOnce(Slow(), most=0)
    monkeypatch.setattr(at_once, "PATIENCE_S", 0.01)
    _, body = await asyncio.create_task(asked(crowd))
    assert 'href="/tools/fovea/"' in body["body"].decode()
