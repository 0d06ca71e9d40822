from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import selectors
from jobs.models import Artifact, Attempt, Curve, Job, JobEvent, Series
from jobs.recorder import EventGap, StaleFence, record
from jobs.states import Status
from wire.events import (
    ArtifactDropped,
    ArtifactMade,
    AttemptStarted,
    CheckpointBest,
    Envelope,
    Notice,
    Progress,
    RunEnded,
    Scalars,
    SeriesInfo,
)

pytestmark = pytest.mark.django_db

BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def sealed(events):
    return [Envelope(seq=n, at=BEGAN + timedelta(seconds=n), event=event) for n, event in enumerate(events, 1)]


def made(name, sha256="a" * 64):
    return ArtifactMade(artifact="checkpoint", name=name, path=f"artifacts/{name}", sha256=sha256, bytes=7)


@pytest.fixture
def attempt(make_job):
    return Attempt.objects.create(job=make_job(status=Status.STARTING), n=1, fence=1, host="here")


def rows(job):
    """Everything that recording writes."""
    job = Job.objects.get(pk=job.pk)
    return {
        "job": (
            job.status,
            job.last_seq,
            job.stage,
            job.done,
            job.total,
            job.best_value,
            job.best_step,
            job.error_code,
        ),
        "events": list(JobEvent.objects.filter(job=job).order_by("seq").values_list("seq", "kind", "body")),
        "series": list(Series.objects.filter(job=job).order_by("name").values_list("name", "unit", "better")),
        "curves": [
            (name, block, count, bytes(payload))
            for name, block, count, payload in Curve.objects.filter(series__job=job)
            .order_by("series__name", "block")
            .values_list("series__name", "block", "count", "payload")
        ],
        "artifacts": list(
            Artifact.objects.filter(made_by=job)
            .order_by("name")
            .values_list("name", "sha256", "created_at", "trashed_at")
        ),
        "attempts": list(Attempt.objects.filter(job=job).values_list("n", "from_step", "started_seq", "total_steps")),
    }


EVENTS = sealed(
    [
        AttemptStarted(n=1, total_steps=8, steps_per_epoch=4, series=(SeriesInfo(name="lr", unit="1"),)),
        *(Scalars(step=step, values={"train/loss": 1 / step, "lr": 0.1}) for step in range(1, 5)),
        Scalars(step=5, values={"train/loss": None}, nonfinite={"train/loss": "nan"}),
        Progress(stage="train", done=5, total=8),
        made("step-4"),
        CheckpointBest(step=4, series="val/top1", value=0.5, artifact="step-4"),
        Notice(level="warning", code="slow", text="the data are late"),
        made("step-5"),
        ArtifactDropped(name="step-4", reason="newer"),
        made("step-4", sha256="b" * 64),
        RunEnded(outcome="failed", code="loss.not_finite", message="no", hint="less"),
    ]
)


def test_each_kind_lands_where_it_is_read(attempt):
    job = attempt.job
    assert record(attempt, EVENTS) == EVENTS
    found = rows(job)
    assert found["job"] == ("running", 14, "train", 5, 8, 0.5, 4, "loss.not_finite")
    assert [kind for _, kind, _ in found["events"]] == [
        *("attempt.started", "artifact.made", "checkpoint.best", "notice"),
        *("artifact.made", "artifact.dropped", "artifact.made", "run.ended"),
    ]
    assert found["series"] == [("lr", "1", ""), ("train/loss", "", "")]
    assert [(name, sha256[0], trashed) for name, sha256, _, trashed in found["artifacts"]] == [
        ("step-4", "b", None),
        ("step-5", "a", None),
    ]
    assert found["attempts"] == [(1, 0, 1, 8)]
    loss = selectors.curves_read(job).series["train/loss"]
    assert loss.step == [1, 2, 3, 4, 5]
    assert loss.value == [1, 0.5, 1 / 3, 0.25, None]
    assert loss.at[0] == EVENTS[1].at.timestamp()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_redelivery_gives_the_same_rows(attempt, data):
    """Batches of any size, each delivered again from anywhere before its end."""
    expected = data.draw(st.just(None)) or _recorded_at_once(attempt)
    job = _fresh(attempt)
    at = 0
    while at < len(EVENTS):
        end = data.draw(st.integers(at + 1, len(EVENTS)))
        record(job, EVENTS[data.draw(st.integers(0, at)) : end])
        for _ in range(data.draw(st.integers(0, 2))):
            first = data.draw(st.integers(0, end - 1))
            assert record(job, EVENTS[first : data.draw(st.integers(first + 1, end))]) == []
        at = end
    assert rows(job.job) == expected


def _fresh(attempt):
    job = attempt.job
    for model in (JobEvent, Series, Artifact):
        model.objects.all().delete()
    Attempt.objects.all().delete()
    blank = Job._meta
    Job.objects.filter(pk=job.pk).update(
        **{
            name: blank.get_field(name).get_default()
            for name in ("last_seq", "stage", "done", "total", "best_value", "best_step", "best_series", "error_code")
        },
        status=Status.STARTING,
    )
    return Attempt.objects.create(job=job, n=1, fence=1, host="here")


def _recorded_at_once(attempt):
    fresh = _fresh(attempt)
    record(fresh, EVENTS)
    return rows(fresh.job)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 700), min_size=1, max_size=4))
def test_blocks_are_filled_before_new_ones_begin(attempt, sizes):
    fresh = _fresh(attempt)
    events = sealed([Scalars(step=n, values={"lr": float(n)}) for n in range(sum(sizes))])
    at = 0
    for size in sizes:
        record(fresh, events[at : at + size])
        at += size
    counts = list(Curve.objects.filter(series__job=fresh.job).order_by("block").values_list("count", flat=True))
    assert all(count == 512 for count in counts[:-1])
    assert sum(counts) == sum(sizes)
    lr = selectors.curves_read(fresh.job, max_points=10_000).series["lr"]
    assert lr.value == [float(n) for n in range(sum(sizes))]


def test_a_stale_attempt_writes_nothing(attempt):
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=BEGAN)
    Attempt.objects.create(job=attempt.job, n=2, fence=2, host="there")
    before = rows(attempt.job)
    with pytest.raises(StaleFence):
        record(attempt, EVENTS)
    assert rows(attempt.job) == before


def test_a_gap_is_not_recorded(attempt):
    record(attempt, EVENTS[:3])
    with pytest.raises(EventGap):
        record(attempt, EVENTS[4:])
    assert Job.objects.get(pk=attempt.job_id).last_seq == 3


def test_what_an_earlier_attempt_said_last_does_not_start_the_next_one(attempt):
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=BEGAN)
    second = Attempt.objects.create(job=attempt.job, n=2, fence=2, host="here")
    record(second, EVENTS[:4])
    assert Job.objects.get(pk=attempt.job_id).status == Status.STARTING


def test_one_batch_costs_the_same_however_large(attempt, django_assert_max_num_queries):
    many = sealed([Scalars(step=n, values={"train/loss": 0.5, "lr": 0.1}) for n in range(2000)])
    with django_assert_max_num_queries(14):
        record(attempt, many)
