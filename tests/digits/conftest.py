from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.models import Job
from jobs.states import Status
from tests.digits.toy import write_toy
from tests.flow.running import log_of
from tests.kits.settling import settle


@pytest.fixture(autouse=True)
def _pages(plain_static_names):
    """Some tests look at a page."""


class Api:
    """A person's session on the API."""

    def __init__(self, browser) -> None:
        self.browser = browser

    def get(self, path, **query) -> Any:
        answer = self.browser.get(f"/api/v1{path}", query_params=query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def post(self, path, body) -> Any:
        return self.browser.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")

    def refused(self, path, body) -> tuple[int, dict[str, Any]]:
        answer = self.post(path, body)
        return answer.status_code, answer.json()["error"]

    def queued(self, path, body) -> Job:
        answer = self.post(path, body)
        assert answer.status_code == 201, answer.content
        return Job.objects.get(pk=answer.json()["id"])

    def done(self, path, body) -> Job:
        job = settle(self.queued(path, body))
        assert job.status == Status.SUCCEEDED, f"{job.error_message}\n{log_of(job)}"
        return job

    def imported(self, source, **options) -> Any:
        """A dataset as the API tells it; without options all is for training."""
        job = self.done("/datasets", import_wish(source, **options))
        return self.get(f"/datasets/{job.pk}")


def import_wish(source, **options):
    return {"name": "toy", "source": source, "options": {"val_pct": 0, **options}}


def folder(path, **more):
    return {"kind": "folder", "path": str(path), **{name: str(each) for name, each in more.items()}}


@pytest.fixture
def digits_api(api):
    return Api(api)


@pytest.fixture
def roots(settings, tmp_path):
    """A folder that the server offers for import."""
    settings.IMPORT_ROOTS = [tmp_path]
    return tmp_path


@pytest.fixture
def toy(roots):
    return write_toy(roots / "toy")
