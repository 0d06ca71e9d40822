from __future__ import annotations

import pytest

from jobs import selectors, services
from jobs.requests import *
from wire.specs import *


@pytest.mark.django_db
def test_it(user, api):
    ds = services.import_submit(user, ImportRequest(name="digits", source=FromSample(name="digits")))
    run = services.training_submit(user, TrainingRequest(dataset=ds.pk, model=Choice(name="lenet5")))
    print(selectors.runs_of(user))
    print(
        selectors.curves_read(run),
        selectors.events_after(run, 0),
        selectors.log_read(run),
        selectors.timeline_of(run),
        selectors.devices_list(user),
    )
    print(services.training_request_of(run))
    services.job_cancel(user, run.pk)
    assert selectors.job_summary(run, user).status == "cancelled"
    assert selectors.runs_of(user, q="lenet ada", status="active") == []


def test_redis(redis_server):
    from jobs.stream import client

    assert client().ping()
