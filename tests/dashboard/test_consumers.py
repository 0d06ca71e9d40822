"""Sockets against a real Redis: nothing missing, nothing doubled, whatever happens in between."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User

from dashboard import consumers
from jobs import stream
from jobs.fanout import Fanout
from jobs.models import Job
from jobs.services import token_create
from tests.dashboard.makers import BEGAN, import_job, record, training_job
from tests.dashboard.sockets import SAME_ORIGIN, Socket, connected, session_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(user, redis_server):
    return training_job(user, import_job(user))


@pytest.fixture
def cookie(api):
    return session_of(api)


@sync_to_async
def recorded(job, n_events):
    """Events that are in the file and the database only, as while Redis was away."""
    record(job, n_events)


@sync_to_async
def happened(job, n_events):
    """Events on their usual way: database first, then the stream."""
    stream.publish(job.pk, record(job, n_events))


def played(scene):
    async_to_sync(scene)()


def seqs(events):
    return [each["seq"] for each in events]


def test_what_was_before_then_what_comes(run, cookie):
    async def scene():
        await happened(run, 5)
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            assert seqs(await socket.events(5)) == [1, 2, 3, 4, 5]
            await socket.until("live", ok=True)
            await happened(run, 3)
            await happened(run, 2)
            assert seqs(await socket.events(5)) == [6, 7, 8, 9, 10]

    played(scene)


def test_a_browser_that_comes_back_gets_what_it_missed(run, cookie):
    async def scene():
        await happened(run, 8)
        async with connected(f"/ws/jobs/{run.pk}/?after=6", cookie) as socket:
            assert seqs(await socket.events(2)) == [7, 8]
        await happened(run, 4)
        async with connected(f"/ws/jobs/{run.pk}/?after=8", cookie) as socket:
            assert seqs(await socket.events(4)) == [9, 10, 11, 12]
            await happened(run, 1)
            assert seqs(await socket.events(1)) == [13]

    played(scene)


@pytest.mark.parametrize("after", ["", "x", "-3", "9" * 30, "9" * 5000])
def test_a_place_that_is_none_means_the_beginning(run, cookie, after):
    async def scene():
        await happened(run, 2)
        async with connected(f"/ws/jobs/{run.pk}/?after={after}", cookie) as socket:
            assert seqs(await socket.events(2)) == [1, 2]

    played(scene)


def test_a_long_past_comes_in_pages(run, cookie, monkeypatch):
    monkeypatch.setattr(consumers, "PAGE", 4)

    async def scene():
        await recorded(run, 10)
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            pages = [await socket.until("events") for _ in range(3)]
            assert [len(page["events"]) for page in pages] == [4, 4, 2]
            assert [each["seq"] for page in pages for each in page["events"]] == list(range(1, 11))

    played(scene)


def test_a_gap_in_the_stream_is_filled_from_the_file_in_order_and_once(run, cookie):
    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.until("live", ok=True)
            await happened(run, 2)
            assert seqs(await socket.events(2)) == [1, 2]
            await recorded(run, 3)
            await happened(run, 2)
            assert seqs(await socket.events(5)) == [3, 4, 5, 6, 7]
            await happened(run, 1)
            assert seqs(await socket.events(1)) == [8]

    played(scene)


def test_redis_emptied_and_redis_gone(run, cookie, redis_server):
    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.until("live", ok=True)
            await happened(run, 3)
            assert seqs(await socket.events(3)) == [1, 2, 3]

            await sync_to_async(stream.client().flushall)()
            await happened(run, 3)
            assert seqs(await socket.events(3)) == [4, 5, 6]

            await sync_to_async(redis_server.kill)()
            await socket.until("live", ok=False)
            await recorded(run, 3)
            await socket.say({"type": "ping"})
            await socket.until("pong")

            await sync_to_async(redis_server.start)()
            # What was recorded meanwhile comes before the word that all is well.
            assert seqs(await socket.events(3)) == [7, 8, 9]
            await socket.until("live", ok=True)
            await happened(run, 1)
            assert seqs(await socket.events(1)) == [10]

    played(scene)


def test_without_redis_the_past_comes_and_the_browser_is_told_to_poll(run, cookie, redis_server):
    async def scene():
        await recorded(run, 2)
        await sync_to_async(redis_server.kill)()
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            assert seqs(await socket.events(2)) == [1, 2]
            await socket.until("live", ok=False)

    played(scene)


def test_a_browser_too_slow_for_its_queue_starts_afresh_from_the_file(run, cookie, monkeypatch):
    monkeypatch.setattr(consumers, "fanout", Fanout(capacity=5))

    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.until("live", ok=True)
            await happened(run, 60)
            assert seqs(await socket.events(60)) == list(range(1, 61))
            await happened(run, 1)
            assert seqs(await socket.events(1)) == [61]

    played(scene)


def test_two_jobs_do_not_mix(run, user, cookie):
    async def scene():
        other = await sync_to_async(lambda: training_job(user, import_job(user)))()
        async with (
            connected(f"/ws/jobs/{run.pk}/", cookie) as here,
            connected(f"/ws/jobs/{other.pk}/", cookie) as there,
        ):
            await here.until("live", ok=True)
            await there.until("live", ok=True)
            await happened(other, 2)
            await happened(run, 1)
            assert seqs(await there.events(2)) == [1, 2]
            assert seqs(await here.events(1)) == [1]

    played(scene)


def test_a_changed_row_is_announced_to_its_own_socket_only(run, cookie):
    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.until("changed", job=run.pk)
            await socket.until("live", ok=True)
            await sync_to_async(stream.publish_change)(run.pk + 1)
            await sync_to_async(stream.publish_change)(run.pk)
            message = await socket.next()
            while message["type"] == "live":
                message = await socket.next()
            assert message == {"type": "changed", "job": run.pk}

    played(scene)


def test_changes_name_what_the_user_may_see(run, other_user, cookie):
    async def scene():
        hidden = await sync_to_async(lambda: import_job(other_user, private=True))()
        async with connected("/ws/changes/", cookie) as socket:
            await socket.until("live", ok=True)
            for job_id in (hidden.pk, run.pk):
                await sync_to_async(stream.publish_change)(job_id)
            assert await socket.until("changed") == {"type": "changed", "job": run.pk}

    played(scene)


def test_changes_name_what_went_away_too(run, other_user, cookie):
    """A list drops the row of a job that was deleted or hidden; it must hear of it."""

    async def scene():
        theirs = await sync_to_async(lambda: import_job(other_user))()
        async with connected("/ws/changes/", cookie) as socket:
            await socket.until("live", ok=True)
            await Job.objects.filter(pk=theirs.pk).aupdate(private=True)
            await sync_to_async(stream.publish_change)(theirs.pk)
            assert await socket.until("changed") == {"type": "changed", "job": theirs.pk}
            await sync_to_async(stream.publish_change)(theirs.pk)
            await sync_to_async(stream.publish_change)(run.pk)
            assert await socket.until("changed") == {"type": "changed", "job": run.pk}

    played(scene)


def test_a_token_opens_a_socket_without_a_browser(run, user):
    _, secret = token_create(user, "script", scope="read")

    async def scene():
        await happened(run, 1)
        async with connected(f"/ws/jobs/{run.pk}/", (b"authorization", f"Bearer {secret}".encode())) as socket:
            assert seqs(await socket.events(1)) == [1]

    played(scene)


@pytest.mark.parametrize("path", ["/ws/jobs/{}/", "/ws/changes/"])
def test_a_deactivated_user_is_shown_out(run, user, cookie, monkeypatch, path):
    assert consumers.SignedInSocket.recheck_s <= 60
    monkeypatch.setattr(consumers.SignedInSocket, "recheck_s", 0.05)

    async def scene():
        async with connected(path.format(run.pk), cookie) as socket:
            await socket.until("live", ok=True)
            await User.objects.filter(pk=user.pk).aupdate(is_active=False)
            message = await socket.next()
            while isinstance(message, dict):
                message = await socket.next()
            assert message == 4401

    played(scene)


def test_a_job_that_is_deleted_or_hidden_closes_its_socket(run, other_user, client, monkeypatch):
    monkeypatch.setattr(consumers.SignedInSocket, "recheck_s", 0.05)
    client.force_login(other_user)
    cookie = session_of(client)

    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.until("live", ok=True)
            await Job.objects.filter(pk=run.pk).aupdate(private=True)
            message = await socket.next()
            while isinstance(message, dict):
                message = await socket.next()
            assert message == 4404

    played(scene)


@pytest.mark.parametrize("fate", [{"private": True}, {"trashed_at": BEGAN}])
def test_a_job_that_is_gone_when_its_events_are_fetched_closes_its_socket(run, other_user, client, caplog, fate):
    client.force_login(other_user)
    cookie = session_of(client)

    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.until("live", ok=True)
            await recorded(run, 1)
            await Job.objects.filter(pk=run.pk).aupdate(**fate)
            # Its predecessor was not published: the gap is filled from the file, if it may be read.
            await happened(run, 1)
            message = await socket.next()
            while isinstance(message, dict):
                message = await socket.next()
            assert message == 4404

    played(scene)
    assert "a socket failed" not in caplog.text


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("/ws/nowhere/", SAME_ORIGIN),
        ("/ws/jobs/" + "9" * 5000 + "/", SAME_ORIGIN),
        ("/ws/changes/", ((b"host", b"testserver"), (b"origin", b"http://["))),
    ],
)
def test_an_address_that_is_none_is_refused_without_a_word(cookie, path, origin):
    async def scene():
        socket = Socket(path, cookie, origin=origin)
        assert not await socket.open()
        await socket.leave()

    played(scene)


@pytest.mark.parametrize("text", ["{", "[]", '"ping"', "null", '{"type":"dance"}'])
def test_nonsense_from_a_browser_does_no_harm(run, cookie, text):
    async def scene():
        async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
            await socket.send_input({"type": "websocket.receive", "text": text})
            await socket.send_input({"type": "websocket.receive", "bytes": b"\xff"})
            await socket.say({"type": "ping"})
            await socket.until("pong")

    played(scene)


def test_sockets_that_left_leave_nothing_behind(run, cookie):
    async def scene():
        for _ in range(3):
            async with connected(f"/ws/jobs/{run.pk}/", cookie) as socket:
                await socket.until("live", ok=True)
        assert not consumers.fanout._listeners
        assert consumers.fanout._reader is None

    played(scene)
