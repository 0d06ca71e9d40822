"""A browser that sleeps, and browsers that come back all at once."""

from __future__ import annotations

import asyncio
import json
import time

import websockets

from jobs.services import job_cancel
from jobs.states import Status
from tests.faults.ledger import fault
from tests.faults.sockets import Follower
from tests.faults.web import served

N_RECONNECTS = 300
A_SECOND = 100


@fault("43", how="scripted", inject="the socket closed while 12,000 events come")
def test_a_browser_that_slept_gets_what_it_missed(scene, redis_server, user):
    """Every event once and in order: those before, those missed, and those after."""
    job = scene.submit(steps=300, step_s=0.001, burst=40)
    with served(user) as web:
        scene.turn()
        follower = Follower(web, job.pk)
        follower.open()
        follower.hear_up_to(20)
        follower.close()
        scene.finish(job)
        missed = job.last_seq - follower.after
        follower.open()
        follower.hear_up_to(job.last_seq)
        assert follower.has_all(job.last_seq)
        assert missed > 10_000
        follower.close()
    scene.check(job)


@fault("A7", how="scripted", inject="100 sockets a second, each closed as soon as it has caught up")
def test_a_hundred_reconnects_a_second(scene, redis_server, each_database, user):
    """Each browser goes on where it was; none is refused, none misses or gets twice an event."""
    job = scene.submit(steps=20_000, step_s=0.02)
    with served(user) as web:
        scene.turn()
        scene.until_step(job, 5)
        heard = asyncio.run(_storm(web, job.pk))
        assert [seqs for seqs in heard if seqs != list(range(1, len(seqs) + 1))] == []
        assert min(len(seqs) for seqs in heard) >= 5
        staying = Follower(web, job.pk)
        staying.open()
        staying.hear_up_to(1)
        job_cancel(user, job.pk)
        scene.finish(job)
        staying.hear_up_to(job.last_seq)
        assert staying.has_all(job.last_seq)
        staying.close()
        assert web.get("/healthz").status == 200
    scene.check(job, status=Status.CANCELLED)


async def _storm(web, job_id, n_browsers=30):
    """What each browser was sent over all of its connections."""
    address = f"ws://127.0.0.1:{web.port}/ws/jobs/{job_id}/"
    headers = {"Authorization": f"Bearer {web.token}"}
    heard: list[list[int]] = [[] for _ in range(n_browsers)]
    began = time.monotonic()

    async def browse(n):
        for turn in range(N_RECONNECTS // n_browsers):
            due = began + (turn * n_browsers + n) / A_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            after = heard[n][-1] if heard[n] else 0
            asked = f"{address}?after={after}"
            async with websockets.connect(asked, additional_headers=headers, open_timeout=60) as connection:
                heard[n] += await _caught_up(connection)

    await asyncio.gather(*(browse(n) for n in range(n_browsers)))
    return heard


async def _caught_up(connection):
    """What comes until the server says whether more will: it has sent all that there was."""
    seqs: list[int] = []
    while True:
        message = json.loads(await asyncio.wait_for(connection.recv(), 60))
        if message["type"] == "live":
            return seqs
        seqs += [each["seq"] for each in message.get("events", ())]
