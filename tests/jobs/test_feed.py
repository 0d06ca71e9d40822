from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from jobs import stream
from jobs.supervision import feed
from wire.events import Envelope, Progress

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def events(tmp_path):
    made = [Envelope(seq=n, at=NOW, event=Progress(stage="train", done=n, total=9)) for n in range(1, 10)]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(each.model_dump_json() + "\n" for each in made))
    return path, made


def published_seqs(job_id):
    return [int(entry.split(b"-")[0]) for entry, _ in stream.client().xrange(stream.events_key(job_id))]


def test_the_last_events_are_published_when_redis_is_back(events, redis_server, monkeypatch):
    path, made = events
    fed = feed.StreamFeed(1, path, recorded_seq=0)
    fed.push(made[:4])
    redis_server.kill()
    fed.push(made[4:])
    slept = []

    def sleep(_):
        slept.append(1)
        if len(slept) == 3:
            redis_server.start()

    monkeypatch.setattr(feed, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    fed.finish(patience_s=60)
    # The server that came back is an empty one.
    assert published_seqs(1) == list(range(1, 10))
    assert stream.client().xlen(stream.changes_key()) == 1


def test_a_redis_that_stays_away_is_given_up(events, redis_server, monkeypatch):
    path, made = events
    redis_server.kill()
    clock = iter(range(100))
    monkeypatch.setattr(feed, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    fed = feed.StreamFeed(1, path, recorded_seq=0)
    fed.push(made)
    fed.finish(patience_s=20)
    assert fed.n_failures > 1


def test_nothing_is_left_to_say(events, redis_server):
    path, made = events
    fed = feed.StreamFeed(1, path, recorded_seq=0)
    fed.push(made)
    fed.finish()
    assert published_seqs(1) == list(range(1, 10))
    assert stream.client().xlen(stream.changes_key()) == 0
