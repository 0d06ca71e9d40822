"""Events, curves and logs over HTTP."""

from __future__ import annotations

import csv
import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from jobs.curves import POINT
from jobs.models import Curve, Series
from jobs.storage import storage
from tests.dashboard.makers import envelope, import_job, training_job


@pytest.fixture
def run(user):
    return training_job(user, import_job(user), n_events=25)


def curve(job, name, values, unit=""):
    """A recorded series; the point of step n has seq n."""
    series = Series.objects.create(job=job, name=name, unit=unit)
    points = b"".join(POINT.pack(step, step, 1_700_000_000.5 + step, value) for step, value in enumerate(values, 2))
    Curve.objects.create(series=series, block=0, count=len(values), payload=points)


def test_events_come_as_they_were_written(api, run):
    answer = api.get(f"/api/v1/jobs/{run.pk}/events?after=20")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == [json.loads(envelope(seq).model_dump_json()) for seq in range(21, 26)]
    assert [each["seq"] for each in api.get(f"/api/v1/jobs/{run.pk}/events?limit=3").json()] == [1, 2, 3]
    assert api.get(f"/api/v1/jobs/{run.pk}/events?after=25").json() == []


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=10001"])
def test_events_refuse_what_is_no_place(api, run, query):
    answer = api.get(f"/api/v1/jobs/{run.pk}/events?{query}")
    assert answer.status_code == 422
    assert list(answer.json()["error"]["fields"]) == [query.split("=")[0]]


def test_curves_are_read_thinned_and_chosen(api, run):
    curve(run, "train/loss", [1.0, float("nan"), 0.5], unit="nats")
    curve(run, "lr", [0.1] * 20)
    snapshot = api.get(f"/api/v1/jobs/{run.pk}/curves").json()
    assert snapshot["last_seq"] == 25
    assert snapshot["series"]["train/loss"]["value"] == [1.0, None, 0.5]
    assert list(api.get(f"/api/v1/jobs/{run.pk}/curves?series=lr,nothing").json()["series"]) == ["lr"]
    assert len(api.get(f"/api/v1/jobs/{run.pk}/curves?series=lr&max_points=4").json()["series"]["lr"]["step"]) < 10
    assert api.get(f"/api/v1/jobs/{run.pk}/curves?max_points=0").status_code == 422


@pytest.mark.django_db(transaction=True)
def test_the_csv_has_every_point_and_no_formula(user):
    run = training_job(user, import_job(user), n_events=25)
    curve(run, "train/loss", [1.25, float("nan"), -0.5], unit="nats")
    curve(run, '=HYPERLINK("http://elsewhere.example", "a")', [1.0])

    async def fetch(query):
        browser = AsyncClient()
        await browser.aforce_login(user)
        answer = await browser.get(f"/api/v1/jobs/{run.pk}/curves.csv{query}")
        assert answer.headers["Content-Type"].startswith("text/csv")
        assert f'filename="run-{run.pk}-curves.csv"' in answer.headers["Content-Disposition"]
        text = b"".join([chunk async for chunk in answer.streaming_content]).decode()
        return list(csv.DictReader(io.StringIO(text)))

    rows = async_to_sync(fetch)("")
    assert rows[0]["series"] == """'=HYPERLINK("http://elsewhere.example", "a")"""
    loss = [row for row in rows if row["series"] == "train/loss"]
    assert [(row["step"], row["value"], row["unit"]) for row in loss] == [
        ("2", "1.25", "nats"),
        ("3", "", "nats"),
        ("4", "-0.5", "nats"),
    ]
    assert loss[0]["time"] == "2023-11-14T22:13:22.500000+00:00"
    assert {row["series"] for row in async_to_sync(fetch)("?series=train/loss")} == {"train/loss"}


def test_the_log_is_read_by_its_end_and_by_place(api, run):
    path = storage().job(run.pk).attempt(1).log_path
    path.parent.mkdir(parents=True)
    path.write_text("first\nsecond\nthird\n")
    whole = api.get(f"/api/v1/jobs/{run.pk}/log").json()
    assert (whole["attempt"], whole["text"]) == (1, "first\nsecond\nthird\n")
    assert api.get(f"/api/v1/jobs/{run.pk}/log?tail=8").json()["text"] == "third\n"
    assert api.get(f"/api/v1/jobs/{run.pk}/log?attempt=1&offset={whole['end']}").json()["text"] == ""
    assert api.get(f"/api/v1/jobs/{run.pk}/log?attempt=2").json()["text"] == ""
    assert api.get(f"/api/v1/jobs/{run.pk}/log?attempt=0").status_code == 422
