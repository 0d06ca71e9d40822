"""The foreground start as a person uses it: ``manage.py up`` in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from django.conf import settings

from config.start.places import Places
from config.start.state import read_state
from jobs.process import alive
from tests.surroundings import until

pytestmark = pytest.mark.slow

START_TIMEOUT_S = 150
STOP_TIMEOUT_S = 150
WEB_MEMORY_MIB = 180


class Start:
    """One ``manage.py up``, with its console in a file."""

    def __init__(self, environment, console_path):
        self.address = f"http://127.0.0.1:{environment['PORT']}/"
        self.places = Places(Path(environment["DATA_DIR"]))
        self._console_path = console_path
        with console_path.open("wb") as console:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"],
                cwd=settings.BASE_DIR,
                env=environment,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    @property
    def console(self):
        return self._console_path.read_text()

    def wait_until_it_runs(self):
        until(lambda: "Ctrl-C" in self.console or self.process.poll() is not None, timeout_s=START_TIMEOUT_S)
        assert self.process.poll() is None, self.console
        until(lambda: len(self.services()) == 6)

    def services(self):
        state = read_state(self.places.state_path)
        return state.programs if state else {}

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=STOP_TIMEOUT_S)

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=30) as response:
            return response.headers, response.read().decode()


@pytest.fixture
def environment(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FOVEA_", "PYTEST"))}
    for name in ("REDIS_URL", "CACHE_DIR", "DATABASE_URL"):
        inherited.pop(name, None)
    data_dir = tmp_path / "data with a space"
    return {**inherited, "DJANGO_SETTINGS_MODULE": "config.settings", "DATA_DIR": str(data_dir), "PORT": str(port)}


@pytest.fixture
def start(environment, tmp_path):
    started = []

    def begin(**changes):
        started.append(Start({**environment, **changes}, tmp_path / f"console-{len(started)}"))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.stop()


def _refused(environment, **changes):
    """What a start that cannot be says."""
    result = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=settings.BASE_DIR,
        env={**environment, **changes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2, result.stderr
    return result.stderr.strip().splitlines()


def test_from_the_first_start_to_the_second(start):
    first = start()
    first.wait_until_it_runs()

    assert re.search(r"Set-up code +[A-Z0-9-]{8,}", first.console)
    assert first.address in first.console
    _assert_the_pages_are_served(first)
    _assert_the_web_process_is_small(first)
    _assert_secrets_are_private(first.places)
    assert stat.S_IMODE((first.places.data_dir / "fovea.sqlite3").stat().st_mode) == 0o600
    assert set(first.services()) == {"redis", "serve", "web", "worker", "beat", "agent"}
    services = first.services().values()

    second = start()
    assert second.process.wait(timeout=START_TIMEOUT_S) == 0
    assert f"at {first.address}" in second.console

    assert first.stop() == 0
    assert not [service for service in services if alive(service)]
    assert not first.places.state_path.exists()


def test_a_start_after_a_killed_one_takes_over(start):
    killed = start()
    killed.wait_until_it_runs()
    services = killed.services().values()
    killed.process.kill()
    killed.process.wait()
    assert all(alive(service) for service in services)

    following = start()
    following.wait_until_it_runs()

    assert "interrupted start" in following.console
    assert not [service for service in services if alive(service)]
    assert following.stop() == 0


def test_a_killed_service_comes_back(start):
    running = start()
    running.wait_until_it_runs()
    before = running.services()["web"]

    os.kill(before.pid, signal.SIGKILL)

    until(lambda: running.services().get("web") not in {None, before})
    until(lambda: _answers(running))
    assert running.stop() == 0


def test_a_port_in_use_is_one_line(environment):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])

        (line,) = _refused(environment, PORT=port)

    assert f"PORT {port}" in line
    assert "in use" in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATA_DIR", "/dev/null/data"),
        ("CACHE_DIR", "/dev/null/cache"),
        ("PORT", "x"),
        ("DATABASE_URL", "postgres://fovea@127.0.0.1:1/fovea"),
    ],
)
def test_an_unusable_setting_is_one_line(environment, name, value):
    (line,) = _refused(environment, **{name: value})

    assert name in line


def _answers(start):
    try:
        return start.get("healthz")
    except (OSError, urllib.error.URLError):
        return None


def _assert_the_pages_are_served(start):
    _, page = start.get("login/")
    linked = re.findall(r'(?:href|src)="/(static/[^"]+)"', page)
    assert linked
    for path in linked:
        headers, _ = start.get(path)
        assert "immutable" in headers["Cache-Control"], path


def _assert_the_web_process_is_small(start):
    process = Path("/proc") / str(start.services()["web"].pid)
    resident_kib = int(re.search(r"VmRSS:\s+(\d+)", (process / "status").read_text()).group(1))

    assert resident_kib < WEB_MEMORY_MIB * 1024
    assert "libtorch" not in (process / "maps").read_text()


def _assert_secrets_are_private(places):
    for path in (
        places.secret_key_path,
        places.redis_secret_path,
        places.redis_conf_path,
        places.data_dir / "setup-code",
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
