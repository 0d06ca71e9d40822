from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from jobs.models import Attempt, JobEvent
from tests.dashboard.makers import BEGAN, import_job, training_job
from wire.events import Notice

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(client, django_user_model):
    ada = django_user_model.objects.create_user("ada")
    client.force_login(ada)
    job = training_job(ada, import_job(ada))
    job.attempts.all().delete()
    return job


def _attempt(job, n, *, from_step, first_seq, **columns):
    return Attempt.objects.create(
        job=job, n=n, fence=n, host="here", devices=["CPU"], from_step=from_step, started_seq=first_seq,
        started_at=BEGAN, **columns,
    )  # fmt: skip


def _notice(job, seq, code, text):
    body = Notice(level="info", code=code, text=text).model_dump(mode="json")
    JobEvent.objects.create(job=job, seq=seq, at=BEGAN, kind="notice", body=body)


def _history(client, job):
    html = client.get(reverse("run_regions", args=[job.pk])).content.decode()
    return html.split('data-region="history"', 1)[1].split("data-region=", 1)[0]


def test_each_attempt_says_how_exactly_it_went_on_and_how_it_ended(client, run):
    ended = {"ended_at": BEGAN + timedelta(seconds=90)}
    _attempt(run, 1, from_step=0, first_seq=100, reason="lost: its process was killed by SIGKILL", **ended)
    _attempt(run, 2, from_step=1200, first_seq=200, reason="paused as asked", **ended)
    _attempt(run, 3, from_step=1300, first_seq=300, reason="lost: <i>", **ended)
    _attempt(run, 4, from_step=0, first_seq=None)
    _notice(run, 201, "resume.exact", "Resumed exactly at step 1,200: as if never stopped.")
    _notice(run, 301, "resume.not_exact", "The run continues with 7 threads instead of 2.")
    rows = _history(client, run).split("<tr>")[2:]
    fourth, third, second, first = rows
    assert "xactly" not in first
    assert "Lost: its process was killed by SIGKILL" in first
    assert "1m 30s" in first
    assert "Resumed exactly" in second
    assert "1,200" in second
    assert "Paused as asked" in second
    assert "Not exactly" in third
    assert "7 threads instead of 2" in third
    assert "&lt;i&gt;" in third
    assert "Goes on" in fourth
    assert "Resumed" not in fourth.replace("Resumed</th>", "")
    assert "CPU, here" in fourth


def test_a_single_attempt_needs_no_table(client, run):
    _attempt(run, 1, from_step=0, first_seq=100)
    assert "<table" not in _history(client, run)
    assert "hidden" in _history(client, run)


def test_an_early_end_is_said_at_the_top_of_the_page_and_an_exact_resumption_is_not(client, run):
    _notice(run, 201, "resume.exact", "Resumed exactly at step 1,200.")
    _notice(run, 202, "run.ended_early", "Ended early after epoch 3 of 30.")
    html = client.get(reverse("run_regions", args=[run.pk])).content.decode()
    banner = html.split('data-region="banner"', 1)[1].split("data-region=", 1)[0]
    assert "Ended early after epoch 3 of 30." in banner
    assert "Resumed exactly" not in banner
