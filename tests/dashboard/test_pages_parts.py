"""What pages do to evaluations, classifications and exports as to any other job."""

from __future__ import annotations

import pytest

from jobs.models import Job
from tests.dashboard.makers import checkpoint_of, classification_job, evaluation_job, import_job, training_job
from tests.kits.exported import export_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    return training_job(user, import_job(user), status="succeeded")


@pytest.fixture
def checkpoint(run):
    return checkpoint_of(run)


def text_of(answer):
    return " ".join(answer.content.decode().split())


def test_deleting_a_run_says_what_goes_along(api, user, other_user, run, checkpoint):
    assert "with it" not in text_of(api.get(f"/jobs/delete?ids={run.pk}"))
    evaluation = evaluation_job(other_user, run, checkpoint)
    assert "1 evaluation, classification or export goes with it." in text_of(api.get(f"/jobs/delete?ids={run.pk}"))
    classification_job(user, run, checkpoint)
    assert "2 evaluations, classifications and exports go with it." in text_of(api.get(f"/jobs/delete?ids={run.pk}"))
    assert "goes with them." in text_of(api.get(f"/jobs/delete?ids={run.pk}&ids={evaluation.pk}"))
    assert api.post("/jobs/delete", {"ids": [run.pk]}).status_code == 302
    assert not Job.objects.filter(trashed_at=None).exclude(verb="import").exists()


def test_deleting_a_private_run_of_another_says_nothing(api, other_user, run, checkpoint):
    evaluation_job(other_user, run, checkpoint)
    Job.objects.update(private=True, owner=other_user)
    assert "goes with" not in text_of(api.get(f"/jobs/delete?ids={run.pk}"))


@pytest.mark.parametrize(
    ("make", "words"),
    [(evaluation_job, "evaluation"), (classification_job, "classification"), (export_job, "export")],
)
def test_cancelling_calls_a_part_by_its_name(api, user, run, checkpoint, make, words):
    part = make(user, run, checkpoint, status="queued")
    dialog = text_of(api.get(f"/jobs/{part.pk}/cancel"))
    assert f"Cancel the {words}" in dialog
    assert "it can be started again" in dialog


def test_parts_are_not_in_the_tables_of_the_home_page(api, user, run, checkpoint):
    evaluation = evaluation_job(user, run, checkpoint)
    classification = classification_job(user, run, checkpoint)
    export = export_job(user, run, checkpoint)
    for page in ("/", "/datasets/"):
        text = text_of(api.get(page))
        assert f'id="job-{evaluation.pk}"' not in text
        assert f'id="job-{classification.pk}"' not in text
        assert f'id="job-{export.pk}"' not in text
    assert f'id="job-{run.pk}"' in text_of(api.get("/"))


def test_an_export_that_is_cancelled_leads_back_to_the_exports_of_its_run(api, user, run, checkpoint):
    part = export_job(user, run, checkpoint, status="queued")
    answer = api.post(f"/jobs/{part.pk}/cancel")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/runs/{run.pk}/export/")
