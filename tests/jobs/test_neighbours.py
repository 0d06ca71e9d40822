from __future__ import annotations

import pytest

from jobs.host import host_name
from jobs.models import Attempt
from jobs.supervision.neighbours import ALONE, LONGEST_PAUSE_S, PART, SHORTEST_PAUSE_S, Neighbours


@pytest.mark.django_db
def test_the_more_there_are_the_less_each_writes(make_job, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    neighbours = Neighbours()
    assert neighbours.pause_s(0.02) == pytest.approx(ALONE * 0.02)
    assert neighbours.pause_s(0.0001) == SHORTEST_PAUSE_S
    for _ in range(10):
        Attempt.objects.create(job=make_job(), n=1, fence=1, host=host_name())
    neighbours.count()
    # Ten of them work a tenth of the cores' quarter each.
    assert neighbours.pause_s(0.02) == pytest.approx(PART * 10 / 2 * 0.02)
    assert neighbours.pause_s(1.0) == LONGEST_PAUSE_S
