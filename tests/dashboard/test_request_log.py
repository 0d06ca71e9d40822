from __future__ import annotations

import pytest

from jobs.log_context import log_context, logged_with
from jobs.services import token_create

pytestmark = pytest.mark.django_db


@pytest.fixture
def contexts(caplog):
    """What stood in the log's context at each line."""
    seen = []
    caplog.handler.addFilter(lambda line: seen.append(dict(log_context())) or True)
    return seen


def test_lines_about_a_page_say_who_asked_for_it(client, user, contexts):
    client.force_login(user)
    with logged_with(request="named"):
        assert client.get("/runs/999999/").status_code == 404
    assert contexts[-1] == {"request": "named", "user": user.pk}


def test_lines_about_a_call_of_the_api_say_whose_token_it_was(client, user, contexts):
    _, secret = token_create(user, "script", scope="write")
    with logged_with(request="named"):
        answer = client.get("/api/v1/jobs/999999", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 404
    assert contexts[-1] == {"request": "named", "user": user.pk}
