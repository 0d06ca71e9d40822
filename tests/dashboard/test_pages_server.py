from __future__ import annotations

import pytest

from jobs.doctor.finding import problem

pytestmark = pytest.mark.django_db


def test_an_administrator_sees_every_area(client, admin_user, redis_server, plain_static_names):
    client.force_login(admin_user)

    answer = client.get("/settings/server/")

    assert answer.status_code == 200
    page = answer.content.decode()
    for title in ("Storage", "Database", "Services", "Devices", "Jobs", "Versions"):
        assert f">{title}</h2>" in page
    assert "Redis answers." in page
    assert 'aria-current="page"' in page


def test_what_is_bad_comes_first_and_says_what_to_do(client, admin_user, monkeypatch, plain_static_names):
    def burning():
        yield problem("storage.fire", "The disk <burns>.", "Put it out.")

    monkeypatch.setattr("dashboard.views.server.ALL_BUT_SLOW", (burning,))
    client.force_login(admin_user)

    page = client.get("/settings/server/").content.decode()

    assert "1 problem." in " ".join(page.split())
    assert "The disk &lt;burns&gt;." in page
    assert '<p class="finding-step">Put it out.</p>' in page
    assert "Database</h2>" not in page


def test_a_member_is_refused_and_sees_no_link(api, plain_static_names):
    assert api.get("/settings/server/").status_code == 403
    assert "/settings/server/" not in api.get("/settings/tokens/").content.decode()
