"""A real server, killed in the middle of an upload: what had arrived is there, and the rest fits to it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import contextmanager

import pytest
from django.conf import settings

from jobs.models import Upload
from jobs.services import token_create
from jobs.storage import storage
from tests.browser.stack import free_port
from tests.surroundings import until
from tests.tus import TusClient

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 2**20
N_BYTES = 24 * MIB


@contextmanager
def served(port, *, file_bytes=None):
    """The web process as it is started for people; ``file_bytes`` limits how large its files may grow."""
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ws", "websockets-sansio", "--lifespan", "off", "--log-level", "warning"]
    if file_bytes:
        command = ["prlimit", f"--fsize={file_bytes}", *command]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment)
    try:
        until(lambda: process.poll() is not None or answers(port))
        yield process
    finally:
        process.kill()
        process.wait()


def answers(port):
    try:
        return TusClient(f"http://127.0.0.1:{port}", "nobody").call("GET", "/healthz").status == 200
    except OSError:
        return False


@pytest.fixture
def client_at(user):
    _, secret = token_create(user, "client")
    return lambda port: TusClient(f"http://127.0.0.1:{port}", secret)


def test_a_server_that_is_killed_loses_nothing_that_had_arrived(client_at):
    data = random.Random(5).randbytes(N_BYTES)  # noqa: S311
    blocks = [data[at : at + MIB] for at in range(0, N_BYTES, MIB)]
    port = free_port()
    tus = client_at(port)
    with served(port) as server:
        path = tus.begin(N_BYTES)
        file = storage().upload_path(path.rpartition("/")[2])

        def until_half():
            for n, block in enumerate(blocks):
                if n == 12:
                    until(lambda: file.exists() and file.stat().st_size >= 6 * MIB)
                    server.kill()
                    server.wait()
                    return
                yield block

        assert tus.send(path, 0, until_half(), n_bytes=N_BYTES) is None
    with served(port):
        offset = tus.offset(path)
        assert 6 * MIB <= offset <= 12 * MIB
        answer = tus.send(path, offset, [data[offset:]], n_bytes=N_BYTES - offset)
        assert answer is not None
        assert (answer.status, tus.offset(path)) == (204, N_BYTES)
    assert file.read_bytes() == data
    assert Upload.objects.get().completed_at is not None


def test_a_disk_that_is_really_full_ends_in_words(client_at):
    """The limit of a file's size stands for the disk's: the system refuses the write."""
    data = random.Random(6).randbytes(4 * MIB)  # noqa: S311
    port = free_port()
    tus = client_at(port)
    with served(port, file_bytes=3 * MIB):
        path = tus.begin(len(data))
        answer = tus.send(path, 0, [data], n_bytes=len(data))
        assert answer is not None
        assert (answer.status, answer.error["code"]) == (507, "disk.full")
        assert f"{MIB:,} bytes) are missing" in answer.error["message"]
        assert tus.offset(path) == 3 * MIB
    with served(port):
        answer = tus.send(path, 3 * MIB, [data[3 * MIB :]], n_bytes=MIB)
        assert answer is not None
        assert answer.status == 204
    assert storage().upload_path(path.rpartition("/")[2]).read_bytes() == data


def test_a_refusal_comes_though_bytes_are_on_their_way(client_at):
    """And the connection is not broken under a client that has not read it yet."""
    data = bytes(32 * MIB)
    port = free_port()
    tus = client_at(port)
    with served(port):
        path = tus.begin(len(data))
        answer = tus.send(path, 5, [data], n_bytes=len(data))
        assert answer is not None
        assert (answer.status, answer.error["code"]) == (409, "upload.offset")
