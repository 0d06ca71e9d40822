from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.curves import POINT, curves_read
from jobs.models import Attempt, Curve, Job, Series
from jobs.states import Status

pytestmark = pytest.mark.django_db

BEGAN = datetime(2026, 3, 4, tzinfo=UTC).timestamp()


@pytest.fixture
def job(make_job):
    return make_job(status=Status.RUNNING)


def store(job, points, name="loss"):
    """``points`` are (seq, step, value)."""
    Series.objects.filter(job=job, name=name).delete()
    series = Series.objects.create(job=job, name=name, better="lower")
    for block, first in enumerate(range(0, len(points), 512)):
        part = points[first : first + 512]
        payload = b"".join(POINT.pack(seq, step, BEGAN + seq, value) for seq, step, value in part)
        Curve.objects.create(series=series, block=block, count=len(part), payload=payload)
    last = max((seq for seq, _, _ in points), default=0)
    Job.objects.filter(pk=job.pk).update(last_seq=last)


VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(VALUES, max_size=1500), max_points=st.integers(10, 200))
def test_thinning_keeps_extremes_ends_and_gaps(job, values, max_points):
    store(job, [(n + 1, n, value) for n, value in enumerate(values)])
    thinned = curves_read(job, max_points=max_points).series["loss"]
    assert len(thinned.seq) <= 2 * max_points + 6
    assert thinned.seq == sorted(set(thinned.seq))
    for seq, step, at, value in zip(thinned.seq, thinned.step, thinned.at, thinned.value, strict=True):
        assert (step, at) == (seq - 1, BEGAN + seq)
        assert value == values[seq - 1] or (value is None and math.isnan(values[seq - 1]))
    finite = [value for value in values if math.isfinite(value)]
    shown = [value for value in thinned.value if value is not None]
    if finite:
        assert (min(shown), max(shown)) == (min(finite), max(finite))
    if values:
        assert (thinned.seq[0], thinned.seq[-1]) == (1, len(values))
    assert (None in thinned.value) == any(math.isnan(value) for value in values)


def test_a_single_spike_among_many_points_survives(job):
    points = [(n, n, 1.0) for n in range(1, 20_001)]
    points[13_333] = (13_334, 13_334, 99.0)
    store(job, points)
    thinned = curves_read(job, max_points=100).series["loss"]
    assert 99.0 in thinned.value
    assert len(thinned.value) <= 106


def test_few_points_are_all_there(job):
    store(job, [(n, n, float(n)) for n in range(1, 701)])
    assert curves_read(job).series["loss"].value == [float(n) for n in range(1, 701)]


def attempts(job, *started):
    """``started`` are (started_seq, from_step)."""
    for n, (seq, from_step) in enumerate(started, 1):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n)
        Attempt.objects.create(job=job, n=n, fence=n, host="h", started_seq=seq, from_step=from_step, ended_at=at)


def test_superseded_points_are_left_out(job):
    # Steps 1-6, again from 4, again from 2: what the second did past step 2 is gone too.
    attempts(job, (1, 0), (8, 4), (12, 2))
    first = [(1 + step, step, 10.0 + step) for step in range(1, 7)]
    second = [(4 + step, step, 20.0 + step) for step in range(5, 8)]
    third = [(10 + step, step, 30.0 + step) for step in range(3, 6)]
    store(job, first + second + third)
    curve = curves_read(job)
    assert curve.series["loss"].step == [1, 2, 3, 4, 5]
    assert curve.series["loss"].value == [11, 12, 33, 34, 35]
    assert [info.from_step for info in curve.attempts] == [0, 4, 2]


def test_points_past_the_cursor_wait_for_it(job):
    store(job, [(n, n, 1.0) for n in range(1, 11)])
    Job.objects.filter(pk=job.pk).update(last_seq=6)
    assert curves_read(job).series["loss"].seq == [1, 2, 3, 4, 5, 6]


def test_the_cost_does_not_grow_with_the_series(job, django_assert_num_queries):
    for n in range(12):
        store(job, [(1, 1, 1.0)], name=f"s{n}")
    with django_assert_num_queries(4):
        assert len(curves_read(job).series) == 12
    assert set(curves_read(job, names=["s3", "s4", "none"]).series) == {"s3", "s4"}
