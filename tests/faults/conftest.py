from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest
from django.conf import settings

from tests.faults.cluster import Cluster, django_on
from tests.faults.scene import MARKER, Scene
from tests.jobs.conftest import bench, imported, make_job, trained, training
from tests.surroundings import shared_processes

__all__ = ["bench", "imported", "make_job", "trained", "training"]


@pytest.fixture(scope="session")
def _cluster():
    with shared_processes():
        cluster = Cluster()
    yield cluster
    cluster.remove()


@pytest.fixture(autouse=True)
def _database(request, transactional_db):
    """Chosen before any row is made: SQLite, or PostgreSQL where the test asks for it."""
    wanted = request.fixturenames
    if "postgres" in wanted or ("each_database" in wanted and request.getfixturevalue("each_database") == "postgresql"):
        request.getfixturevalue("postgres")


@pytest.fixture
def postgres(transactional_db, _cluster, monkeypatch):
    """The test, and every process that it starts, on a new database of a server that it may kill."""
    name = _cluster.new_database()
    monkeypatch.setenv("DATABASE_URL", _cluster.url(name))
    monkeypatch.delenv("FOVEA_TEST_DATABASE")
    with django_on(_cluster.url(name)):
        yield _cluster
    _cluster.as_it_was()
    _cluster.drop_database(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def each_database(request):
    """The test once on SQLite and once on PostgreSQL."""
    return request.param


@pytest.fixture
def scene(bench, make_job, monkeypatch):
    """A DATA_DIR with agents, supervisors and workers over the scripted engine; every process ends with the test."""
    monkeypatch.setenv(MARKER, uuid.uuid4().hex)
    monkeypatch.setattr("jobs.retry.DELAYS_S", (0,))
    scene = Scene(make_job)
    yield scene
    scene.end()
    sys.stdout.write(scene.told())  # shown where the test failed
    (Path(settings.DATA_DIR) / "services.txt").unlink(missing_ok=True)


@pytest.fixture
def real_engine(scene, monkeypatch):
    """Supervisors start ``python -m engine`` instead of the scripted one."""
    monkeypatch.delenv("FOVEA_TEST_ENGINE")
