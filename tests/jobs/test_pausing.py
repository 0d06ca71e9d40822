from __future__ import annotations

import pytest

from jobs import room, services, transitions
from jobs.models import Attempt, JobEvent
from jobs.services.power import trainings_resume
from jobs.states import ENDED, ResumesWhen, Status
from tests.jobs.evaluated import checkpoint
from wire.errors import ActionRefused, DiskFull

pytestmark = pytest.mark.django_db
MIB = 2**20


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Status.QUEUED, Status.PAUSED),
        (Status.STARTING, Status.PAUSING),
        (Status.RUNNING, Status.PAUSING),
        (Status.PAUSING, Status.PAUSING),
        (Status.PAUSED, Status.PAUSED),
    ],
)
def test_pausing_from_every_state_that_has_not_ended(make_job, user, before, after):
    job = services.job_pause(user, make_job(status=before).pk)
    assert (job.status, job.resumes_when) == (after, "")
    assert services.job_pause(user, job.pk).status == after


@pytest.mark.parametrize("status", [Status.WAITING, Status.CANCELLING, *sorted(ENDED)])
def test_what_cannot_be_paused_says_why(make_job, user, status):
    with pytest.raises(ActionRefused, match=f"is {status}, and cannot be paused"):
        services.job_pause(user, make_job(status=status).pk)


@pytest.mark.parametrize("verb", ["import", "evaluate", "classify", "export"])
def test_what_would_begin_again_is_not_paused(make_job, user, verb):
    with pytest.raises(ActionRefused, match="it would have to begin again"):
        services.job_pause(user, make_job(status=Status.RUNNING, verb=verb).pk)


@pytest.mark.parametrize("cause", list(ResumesWhen))
@pytest.mark.parametrize("status", [Status.PAUSING, Status.PAUSED])
def test_a_persons_pause_takes_the_place_of_any_other(make_job, user, cause, status):
    job = make_job(status=status)
    type(job).objects.filter(pk=job.pk).update(resumes_when=cause)
    job = services.job_pause(user, job.pk)
    assert (job.resumes_when, job.wait_reason) == ("", "By ada. It goes on when it is resumed.")
    assert trainings_resume() == 0


def test_somebody_else_neither_pauses_nor_resumes(make_job, other_user):
    job = make_job(status=Status.RUNNING)
    for wish in (services.job_pause, services.job_resume):
        with pytest.raises(ActionRefused, match="belongs to ada"):
            wish(other_user, job.pk)


def test_resuming_queues_it_and_a_second_time_changes_nothing(make_job, user):
    job = services.job_pause(user, make_job().pk)
    job = services.job_resume(user, job.pk)
    assert (job.status, job.wait_reason, job.resumes_when) == (Status.QUEUED, "", "")
    assert services.job_resume(user, job.pk).status == Status.QUEUED
    assert list(job.transitions.order_by("pk").values_list("after", flat=True)) == ["queued", "paused", "queued"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.PAUSING, "still saving"),
        (Status.CANCELLING, "does not go on"),
        *((status, "does not go on") for status in sorted(ENDED)),
    ],
)
def test_what_cannot_be_resumed_says_why(make_job, user, status, words):
    with pytest.raises(ActionRefused, match=words):
        services.job_resume(user, make_job(status=status).pk)


@pytest.fixture
def without_room(make_job, settings):
    """A run that a full disk has paused, with a checkpoint of so many bytes."""

    def make(checkpoint_bytes=0):
        job = make_job(status=Status.RUNNING)
        if checkpoint_bytes:
            made = checkpoint(job, 10)
            type(made).objects.filter(pk=made.pk).update(bytes=checkpoint_bytes)
        transitions.move(job.pk, before=Status.RUNNING, after=Status.PAUSED, resumes_when=ResumesWhen.DISK)
        job.refresh_from_db()
        return job

    return make


def test_it_goes_on_when_there_is_room_for_two_checkpoints_above_the_reserve(without_room, settings):
    assert room.room_to_go_on_bytes(without_room()) == 16 * MIB
    assert room.room_to_go_on_bytes(without_room(100 * MIB)) == 200 * MIB
    settings.DISK_RESERVE_GIB = 10
    assert room.room_to_go_on_bytes(without_room()) == 2**30


def test_each_time_that_the_room_was_too_little_it_waits_for_twice_as_much(without_room):
    job = without_room()
    for n, factor in ((1, 1), (2, 2), (3, 4)):
        Attempt.objects.create(
            job=job, n=n, fence=n, host="here", ended_at="2026-01-01T00:00Z", reason="disk.full: The disk is full.",
            started_seq=10 * n,
        )  # fmt: skip
        assert room.room_to_go_on_bytes(job) == factor * 16 * MIB
    JobEvent.objects.create(job=job, seq=35, at="2026-01-01T00:00Z", kind="artifact.made", body={})
    assert room.room_to_go_on_bytes(job) == 16 * MIB


def test_only_as_many_go_on_as_there_is_room_for_together(without_room, monkeypatch, settings):
    first, second = without_room(), without_room()
    monkeypatch.setattr("jobs.room.room_bytes", lambda: 20 * MIB)
    assert trainings_resume() == 1
    for job in (first, second):
        job.refresh_from_db()
    assert (first.status, second.status) == (Status.QUEUED, Status.PAUSED)
    monkeypatch.setattr("jobs.room.room_bytes", lambda: 2 * MIB)
    assert trainings_resume() == 0
    second.refresh_from_db()
    assert second.wait_reason == "The disk was full. 14 MB are missing. It goes on by itself when there is room."


def test_a_cache_on_a_disk_of_its_own_counts_too(without_room, monkeypatch):
    job = without_room()
    monkeypatch.setattr("jobs.room._cache_room_bytes", lambda: 1 * MIB)
    assert room.missing_to_go_on_bytes(job) == 15 * MIB
    assert trainings_resume() == 0


def test_resuming_by_hand_needs_the_room_as_well(without_room, user, settings):
    job = without_room()
    settings.DISK_RESERVE_GIB = 1e6
    with pytest.raises(DiskFull, match="are missing"):
        services.job_resume(user, job.pk)
    settings.DISK_RESERVE_GIB = 0
    assert services.job_resume(user, job.pk).status == Status.QUEUED
