"""Threads that ask the database for all sockets: each closes its connection when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dashboard import socket_database
from dashboard.socket_database import Desk


class Connections:
    """Those that questions have opened, by the thread that has one."""

    def __init__(self):
        self.open = set()

    def use(self):
        self.open.add(threading.get_ident())

    def close_all(self):
        self.open.discard(threading.get_ident())


@pytest.fixture
def connections(monkeypatch):
    known = Connections()
    monkeypatch.setattr(socket_database, "connections", known)
    return known


async def settled(condition):
    while not condition():  # noqa: ASYNC110 - threads of others are to run, and nothing tells when they have
        await asyncio.sleep(0.001)


@pytest.mark.asyncio
async def test_a_quiet_server_holds_none_whoever_was_last(connections):
    desk = Desk(2)
    gates = [threading.Event(), threading.Event()]

    def question(gate):
        connections.use()
        assert gate.wait(10)

    asked = [asyncio.create_task(desk.ask(lambda gate=gate: question(gate))) for gate in gates]
    await settled(lambda: len(connections.open) == 2)
    for gate, task in zip(gates, asked, strict=True):
        gate.set()
        await task
    await settled(lambda: not connections.open)


@pytest.mark.asyncio
async def test_who_does_not_wait_for_an_answer_keeps_none_open(connections):
    desk = Desk(1)
    gate = threading.Event()

    def question():
        connections.use()
        assert gate.wait(10)

    asked = [asyncio.create_task(desk.ask(question)) for _ in range(3)]
    await settled(lambda: connections.open)
    for task in asked[1:]:
        task.cancel()
    await asyncio.gather(*asked[1:], return_exceptions=True)
    gate.set()
    await asked[0]
    await settled(lambda: not connections.open)


@pytest.mark.asyncio
async def test_one_is_kept_while_there_is_a_queue_and_not_after_a_fault(connections):
    desk = Desk(1)
    seen = []

    def question(fault=None):
        seen.append(bool(connections.open))
        connections.use()
        if fault:
            raise fault

    questions = [question, lambda: question(OSError()), question, question]
    answers = await asyncio.gather(*(desk.ask(each) for each in questions), return_exceptions=True)
    assert [type(each) for each in answers] == [type(None), OSError, type(None), type(None)]
    assert seen == [False, True, False, True]
    await settled(lambda: not connections.open)
