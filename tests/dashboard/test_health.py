from __future__ import annotations

import pytest
from django.db import OperationalError, connection


def test_the_process_is_up_without_anything_else(client):
    """No database mark: a query would fail the test."""
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_what_it_needs_is_named(client, redis_server):
    assert client.get("/readyz").json() == {"ready": True, "database": True, "redis": True}
    redis_server.kill()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["redis"]) == (200, False)


@pytest.mark.django_db
def test_without_a_database_it_is_not_ready(client, redis_server, monkeypatch):
    def refuse():
        raise OperationalError("gone")

    monkeypatch.setattr(connection, "cursor", refuse)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, False)
