from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings
from django.db import connection

from config.start.redis import find_redis_server
from tests.kits.serving import Serving
from tests.surroundings import Surroundings, shared_processes, until

# No test is judged by the clock.
hypothesis.settings.register_profile("fovea", deadline=None)
hypothesis.settings.load_profile("fovea")

# Read when torch is imported, as in ``engine.__main__``: threads that spin while they wait take the cores from the
# other test processes, and a training in a test then takes several times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

PASSWORD = "correct horse battery"  # noqa: S105


def pytest_unconfigure(config):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(settings.TEST_ROOT, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """The folders with the longest files first: begun last, one of them alone would keep the whole run waiting."""
    order = ("browser", "flow", "faults", "config", "digits", "engine", "jobs")
    items.sort(key=lambda item: order.index(folder) if (folder := item.path.parent.name) in order else len(order))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """The test database, known to processes that tests start."""
    with django_db_blocker.unblock():
        os.environ["FOVEA_TEST_DATABASE"] = str(connection.settings_dict["NAME"])
    yield
    del os.environ["FOVEA_TEST_DATABASE"]


class RedisServer:
    """A real server on a unix socket, which a test may kill and start again."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.socket_path.unlink(missing_ok=True)
        with shared_processes():
            self.process = subprocess.Popen(
                [
                    *(str(find_redis_server()), "--port", "0", "--unixsocket", str(self.socket_path)),
                    *("--save", "", "--appendonly", "no", "--dir", str(self.socket_path.parent)),
                ],
                stdout=subprocess.DEVNULL,
            )
        from jobs.stream import reachable

        until(reachable)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@pytest.fixture(scope="session")
def _redis_process():
    server = RedisServer(Path(settings.DATA_DIR) / "redis.sock")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_server(_redis_process):
    """Redis, running and empty."""
    from jobs.stream import client

    if not _redis_process.running:
        _redis_process.start()
    client().flushall()
    return _redis_process


@pytest.fixture(scope="session")
def _serve_process():
    serving = Serving(Path(settings.DATA_DIR), settings.SERVE_SOCKET)
    yield serving
    serving.stop()


@pytest.fixture
def serve(_serve_process):
    """The service of pictures and trained models for ``DATA_DIR``, running; the first test that asks starts it."""
    if not _serve_process.running:
        _serve_process.start()
    return _serve_process


@pytest.fixture
def user(django_user_model):
    return django_user_model.objects.create_user("ada", password=PASSWORD)


@pytest.fixture
def other_user(django_user_model):
    return django_user_model.objects.create_user("grace", password=PASSWORD)


@pytest.fixture
def admin_user(django_user_model):
    return django_user_model.objects.create_superuser("root", password=PASSWORD)


@pytest.fixture
def api(client, user):
    """A browser that is signed in as ``user``."""
    client.force_login(user)
    return client


@pytest.fixture
def plain_static_names(settings):
    """Hashed names of static files come from collectstatic, which no test of a page needs to run."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.SERVESTATIC_USE_STATIC_ROOT = False
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture(autouse=True)
def _storage_is_empty(request):
    """Ids begin anew with each database, so folders of an earlier test would look like this one's."""
    yield
    for name in ("jobs", "trash", "uploads", "run", "backups"):
        shutil.rmtree(Path(settings.DATA_DIR) / name, ignore_errors=True)


BEFORE = pytest.StashKey[Surroundings]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    item.stash[BEFORE] = Surroundings()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """Looked at when every fixture of the test has been taken down."""
    result = yield
    item.stash[BEFORE].check()
    return result
