"""Uploads through a web server that is killed, a client that goes away, and two clients at once."""

from __future__ import annotations

import hashlib
import random
import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.housekeeping import housekeep
from jobs.models import Upload
from jobs.storage import storage
from tests.faults.ledger import fault
from tests.faults.web import served
from tests.surroundings import until
from tests.tus import TusClient

MIB = 2**20
N_BYTES = 24 * MIB


def blocks_of(data, begin=0):
    return (data[at : at + MIB] for at in range(begin, len(data), MIB))


def pushed(tus, path, data):
    """Bring what is missing, as a client does: ask where to go on, send, and again where it was refused for now."""
    refusals = []
    while (offset := tus.offset(path)) < len(data):
        answer = tus.send(path, offset, blocks_of(data, offset), n_bytes=len(data) - offset)
        if answer is not None and answer.status != 204:
            refusals.append(answer.status)
    return refusals


@pytest.fixture
def noise(rng: random.Random):
    return rng.randbytes(N_BYTES)


@fault("41", how="real", inject="SIGKILL of the web server while bytes come")
def test_a_server_that_is_killed_loses_nothing_that_had_arrived(user, noise):
    """The client goes on where the file ends; the file is the one that was sent."""
    with served(user) as web:
        tus = TusClient(f"http://127.0.0.1:{web.port}", web.token)
        path = tus.begin(N_BYTES)
        file = storage().upload_path(path.rpartition("/")[2])

        def until_half():
            for n, block in enumerate(blocks_of(noise)):
                if n == 12:
                    until(lambda: file.exists() and file.stat().st_size >= 6 * MIB)
                    web.kill()
                    return
                yield block

        assert tus.send(path, 0, until_half(), n_bytes=N_BYTES) is None
        web.start()
        offset = tus.offset(path)
        assert 6 * MIB <= offset <= 12 * MIB
        answer = tus.send(path, offset, [noise[offset:]], n_bytes=N_BYTES - offset)
        assert answer is not None
        assert (answer.status, tus.offset(path)) == (204, N_BYTES)
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(noise).digest()
    assert Upload.objects.get().completed_at is not None


@fault("42", title="Client gone during an upload", how="real", inject="the connection closed in the middle of a piece")
def test_a_client_that_goes_away_leaves_what_it_brought(user, noise):
    """What had arrived is kept, and goes when nobody has come back for it in time."""
    with served(user) as web:
        tus = TusClient(f"http://127.0.0.1:{web.port}", web.token)
        path = tus.begin(N_BYTES)
        file = storage().upload_path(path.rpartition("/")[2])
        assert tus.send(path, 0, [noise[: 8 * MIB]], n_bytes=N_BYTES) is None
        until(lambda: file.exists() and file.stat().st_size == 8 * MIB)
        pushed(tus, path, noise)
        assert file.read_bytes() == noise

        left = tus.begin(N_BYTES)
        tus.send(left, 0, [noise[:MIB]], n_bytes=N_BYTES)
        abandoned = storage().upload_path(left.rpartition("/")[2])
        until(lambda: abandoned.exists() and abandoned.stat().st_size == MIB)
        until(lambda: tus.offset(left) == MIB)
    housekeep()
    assert abandoned.exists()
    Upload.objects.filter(pk=abandoned.name).update(expires_at=timezone.now() - timedelta(seconds=1))
    housekeep()
    assert not abandoned.exists()
    assert file.exists()


@fault("42", title="Two clients at the same upload", how="real", inject="both send all of it at once, again and again")
def test_two_clients_at_one_upload_do_not_interleave(user, noise):
    """One writes at a time, the other hears 409 or 423, and the file is the one that both meant."""
    with served(user) as web:
        clients = [TusClient(f"http://127.0.0.1:{web.port}", web.token) for _ in range(2)]
        path = clients[0].begin(N_BYTES)
        file = storage().upload_path(path.rpartition("/")[2])
        heard: list[int] = []
        ready = threading.Barrier(2)

        def push(tus):
            ready.wait()
            heard.extend(pushed(tus, path, noise))

        threads = [threading.Thread(target=push, args=(tus,)) for tus in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(heard) <= {409, 423}
        assert clients[0].offset(path) == N_BYTES
    assert file.read_bytes() == noise
