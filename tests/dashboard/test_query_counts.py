"""No page asks the database more often because there is more to show."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Artifact, Job, JobInput
from tests.dashboard.makers import import_job, training_job


def trained(user, dataset, n):
    """A run that has ended, with all that hangs on one."""
    run = training_job(user, dataset, status="succeeded", title=f"Run {n}")
    Job.objects.filter(pk=run.pk).update(best_step=10, best_value=0.9, best_series="val/top1")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    Artifact.objects.create(
        made_by=run, kind="checkpoint", name="step-10", path="x", sha256="0" * 64, bytes=1, meta={"step": 10}
    )
    return run


@pytest.fixture
def shown(api, user, other_user):
    """A dataset, a run on it, and the function that adds ``n`` of each, half of them another's."""
    dataset = import_job(user)
    run = trained(user, dataset, 0)

    def add(n):
        for number in range(1, n + 1):
            owner = other_user if number % 2 else user
            trained(owner, dataset, number)
            trained(owner, import_job(owner, title=f"Set {number}"), number)

    return dataset, run, add


def n_queries(client, path):
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/datasets/",
        "/runs/{run}/",
        "/runs/{run}/regions",
        "/datasets/{dataset}/",
        "/runs/new",
        "/runs/new?again={run}",
    ],
)
def test_as_many_queries_for_twenty_jobs_as_for_two(api, shown, path):
    dataset, run, add = shown
    address = path.format(run=run.pk, dataset=dataset.pk)
    add(2)
    few = n_queries(api, address)
    add(18)
    assert n_queries(api, address) == few
