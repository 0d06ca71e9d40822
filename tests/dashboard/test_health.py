from __future__ import annotations

import pytest
from django.db import OperationalError, connection

from dashboard.views import health
from jobs.doctor import look
from jobs.services import token_create


def test_the_process_is_up_without_anything_else(client):
    """No database mark: a query would fail the test."""
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.fixture(autouse=True)
def _every_answer_is_fresh(monkeypatch):
    monkeypatch.setattr(health, "_recently", health._Recently(fresh_s=0))


@pytest.mark.django_db
def test_a_crowd_costs_one_look(client, redis_server, monkeypatch):
    looks = []
    monkeypatch.setattr(health, "look", lambda checks: looks.append(checks) or look(checks))
    monkeypatch.setattr(health, "_recently", health._Recently(fresh_s=3600))
    assert [client.get("/readyz").status_code for _ in range(3)] == [200, 200, 200]
    assert len(looks) == 1


@pytest.mark.django_db
def test_what_it_needs_is_named(client, redis_server):
    well = {"ready": True, "database": True, "storage": True, "redis": True}
    assert client.get("/readyz").json() == well
    redis_server.kill()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {**well, "redis": False})


@pytest.mark.django_db
def test_without_a_database_it_is_not_ready(client, redis_server, monkeypatch):
    def refuse():
        raise OperationalError("gone")

    monkeypatch.setattr(connection, "cursor", refuse)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, False)


@pytest.mark.django_db
def test_without_its_folder_it_is_not_ready(client, redis_server, settings, tmp_path):
    settings.DATA_DIR = tmp_path / "gone"
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["storage"]) == (503, False)


@pytest.mark.django_db
def test_only_administrators_are_told_what_was_found(client, user, admin_user, redis_server):
    client.force_login(user)
    assert "findings" not in client.get("/readyz").json()
    client.force_login(admin_user)
    names = {finding["name"] for finding in client.get("/readyz").json()["findings"]}
    assert {"database.answers", "storage.writable", "storage.room", "services.redis"} <= names


@pytest.mark.django_db
def test_a_program_asks_with_the_token_of_an_administrator(client, user, admin_user, redis_server):
    def findings_for(owner):
        _, secret = token_create(owner, "watch", scope="read")
        return client.get("/readyz", headers={"Authorization": f"Bearer {secret}"}).json().get("findings")

    assert findings_for(user) is None
    assert findings_for(admin_user)
    assert "findings" not in client.get("/readyz", headers={"Authorization": "Bearer nonsense"}).json()
