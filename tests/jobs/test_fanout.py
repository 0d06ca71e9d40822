"""The reader between Redis and the sockets, through what Redis may do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async

from jobs import stream
from jobs.fanout import Changed, Event, Fanout, Live, SubscriptionOverflow
from wire.events import Envelope, Progress

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def envelopes(first, last):
    return [Envelope(seq=n, at=NOW, event=Progress(stage="train", done=n, total=9)) for n in range(first, last + 1)]


async def publish(job_id, first, last):
    assert await sync_to_async(stream.publish)(job_id, envelopes(first, last))


async def collect(subscription, last_seq):
    """Items up to the event of that seq."""
    items = []
    async with asyncio.timeout(20):
        while not any(isinstance(item, Event) and item.seq == last_seq for item in items):
            items += await subscription.get_many()
    return items


def seqs(items):
    return [item.seq for item in items if isinstance(item, Event)]


async def test_many_hear_all_that_is_published_after_they_came(redis_server):
    fanout = Fanout()
    await publish(1, 1, 5)
    async with fanout.subscribe(1) as one, fanout.subscribe(1) as two, fanout.subscribe(2) as other:
        await publish(1, 6, 30)
        await publish(2, 1, 3)
        assert seqs(await collect(one, 30)) == list(range(6, 31))
        items = await collect(two, 30)
        assert items[0] == Live(ok=True)
        assert Envelope.model_validate_json(items[1].text) == envelopes(6, 6)[0]
        assert seqs(await collect(other, 3)) == [1, 2, 3]
        async with fanout.subscribe(1) as late:
            await publish(1, 31, 33)
            assert seqs(await collect(late, 33)) == [31, 32, 33]
    assert not fanout.connected


async def test_two_installations_on_one_redis_do_not_hear_each_other(redis_server, settings):
    ours, secret = Fanout(), settings.SECRET_KEY
    async with ours.subscribe(1) as events, ours.subscribe("changes") as changes:
        assert await events.get_many() == await changes.get_many() == [Live(ok=True)]
        settings.SECRET_KEY = "of another installation"  # noqa: S105
        await publish(1, 1, 3)
        await sync_to_async(stream.publish_change)(2)
        settings.SECRET_KEY = secret
        await publish(1, 1, 1)
        await sync_to_async(stream.publish_change)(3)
        async with asyncio.timeout(20):
            assert await events.get_many() == [Event(1, envelopes(1, 1)[0].model_dump_json())]
            assert await changes.get_many() == [Changed(3)]


async def test_changes_are_a_topic(redis_server):
    fanout = Fanout()
    async with fanout.subscribe("changes") as changes:
        for job_id in (7, 9, 7):
            await sync_to_async(stream.publish_change)(job_id)
        heard = []
        async with asyncio.timeout(20):
            while len(heard) < 3:
                heard += [item for item in await changes.get_many() if isinstance(item, Changed)]
    assert heard == [Changed(7), Changed(9), Changed(7)]


async def test_a_killed_redis_is_said_and_what_comes_after_is_heard(redis_server):
    fanout = Fanout()
    async with fanout.subscribe(1) as subscription:
        await publish(1, 1, 3)
        await collect(subscription, 3)
        await sync_to_async(redis_server.kill)()
        async with asyncio.timeout(20):
            assert await subscription.get_many() == [Live(ok=False)]
        assert not fanout.connected
        await sync_to_async(redis_server.start)()
        await publish(1, 4, 6)
        items = await collect(subscription, 6)
        assert Live(ok=True) in items
        assert seqs(items) == [4, 5, 6]


async def test_subscribing_while_redis_is_away(redis_server):
    await sync_to_async(redis_server.kill)()
    fanout = Fanout()
    async with fanout.subscribe(1) as subscription:
        assert await subscription.get_many() == [Live(ok=False)]
        await sync_to_async(redis_server.start)()
        async with asyncio.timeout(20):
            assert await subscription.get_many() == [Live(ok=True)]
        await publish(1, 1, 2)
        assert seqs(await collect(subscription, 2)) == [1, 2]


async def test_an_emptied_redis_asks_for_a_new_look(redis_server, monkeypatch):
    monkeypatch.setattr("jobs.fanout.MARK_EVERY_S", 0.1)
    fanout = Fanout()
    async with fanout.subscribe(1) as subscription:
        await publish(1, 1, 3)
        await collect(subscription, 3)
        await sync_to_async(stream.client().flushall)()
        async with asyncio.timeout(20):
            assert await subscription.get_many() == [Live(ok=True)]
        await publish(1, 4, 5)
        assert seqs(await collect(subscription, 5)) == [4, 5]


async def test_a_slow_subscriber_is_told_to_begin_again_and_the_others_do_not_notice(redis_server):
    fanout = Fanout(capacity=20)
    async with fanout.subscribe(1) as slow, fanout.subscribe(1) as quick:
        heard = []
        for first in range(1, 100, 9):
            await publish(1, first, first + 8)
            heard += seqs(await collect(quick, first + 8))
        assert heard == list(range(1, 100))
        with pytest.raises(SubscriptionOverflow):
            await slow.get_many()


async def test_a_second_round_on_another_event_loop_works(redis_server):
    fanout = Fanout()

    def round_trip(seq):
        async def once():
            async with fanout.subscribe(1) as subscription:
                await publish(1, seq, seq)
                return seqs(await collect(subscription, seq))

        return asyncio.run(once())

    assert await asyncio.to_thread(round_trip, 1) == [1]
    assert await asyncio.to_thread(round_trip, 2) == [2]


async def test_publishing_twice_is_publishing_once(redis_server):
    await publish(1, 1, 5)
    await publish(1, 3, 7)
    entries = await sync_to_async(stream.client().xrange)(stream.events_key(1))
    assert [int(entry.split(b"-")[0]) for entry, _ in entries] == [1, 2, 3, 4, 5, 6, 7]
    assert await sync_to_async(stream.published_seq)(1) == 7
