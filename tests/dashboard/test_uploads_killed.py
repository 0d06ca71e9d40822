"""A real server, whose disk is full, and whose refusals are heard while bytes are on their way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import contextmanager

import pytest
from django.conf import settings

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
