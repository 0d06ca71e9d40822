"""What must hold of every job, whatever happened to it: the files and the rows tell one story, and it has no holes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from jobs.curves import POINT
from jobs.models import Attempt, Curve, DeviceLease, Job, JobEvent, Transition
from jobs.process import is_locked
from jobs.states import ALLOWED, LIVE, Status
from jobs.storage import storage
from tests.jobs.scripted_engine import LIVED

ONLY_IN_CURVES = {"scalars", "progress"}


def check_history(*jobs: Job) -> None:
    """Assert that the jobs lost nothing, that nothing happened twice, and that nothing is left over.

    Call it when no process of theirs should run any more.
    """
    for job in jobs:
        job.refresh_from_db()
        check_events(job)
        check_transitions(job)
        check_attempts(job)
        check_nothing_is_left_over(job)
    check_ownership(jobs)


def check_events(job: Job) -> None:
    """Numbered from 1 without gap or double, and the rows hold what the file holds."""
    envelopes = written(job)
    assert [one["seq"] for one in envelopes] == list(range(1, len(envelopes) + 1)), f"job {job.pk}: gap or double"
    assert job.last_seq == len(envelopes), f"job {job.pk}: recorded {job.last_seq} of {len(envelopes)} events"
    told = [(one["seq"], one["event"]["kind"]) for one in envelopes if one["event"]["kind"] not in ONLY_IN_CURVES]
    rows = list(JobEvent.objects.filter(job=job).order_by("seq").values_list("seq", "kind"))
    assert rows == told, f"job {job.pk}: rows {set(rows) ^ set(told)}"
    check_points(job, envelopes)


def check_points(job: Job, envelopes: Iterable[dict[str, Any]]) -> None:
    expected: dict[str, list[int]] = defaultdict(list)
    for one in envelopes:
        if one["event"]["kind"] == "scalars":
            for name in one["event"]["values"]:
                expected[name].append(one["seq"])
    found: dict[str, list[int]] = defaultdict(list)
    for curve in Curve.objects.filter(series__job=job).select_related("series").order_by("series", "block"):
        found[curve.series.name] += [seq for seq, *_ in POINT.iter_unpack(curve.payload)]
    assert found == expected, f"job {job.pk}: points of {sorted(expected)} differ from the events"


def written(job: Job) -> list[dict[str, Any]]:
    path = storage().job(job.pk).events_path
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check_transitions(job: Job) -> None:
    """Each step is in the table of states, and begins where the last one ended."""
    steps = list(Transition.objects.filter(job=job).order_by("pk").values_list("before", "after"))
    assert steps[0][0] == "", f"job {job.pk} has no beginning: {steps}"
    assert all(earlier[1] == later[0] for earlier, later in pairwise(steps)), f"job {job.pk}: {steps}"
    assert all(Status(after) in ALLOWED[Status(before)] for before, after in steps[1:]), f"job {job.pk}: {steps}"
    assert steps[-1][1] == job.status, f"job {job.pk} is {job.status}, its history ends with {steps[-1]}"


def check_attempts(job: Job) -> None:
    """Counted without a hole, each one ended before the next began, fences growing."""
    attempts = list(Attempt.objects.filter(job=job).order_by("n"))
    assert [one.n for one in attempts] == list(range(1, len(attempts) + 1)), attempts
    still = job.status in LIVE
    open_ones = [one.n for one in attempts if one.ended_at is None]
    assert open_ones == ([attempts[-1].n] if still else []), f"job {job.pk} is {job.status}, attempts open: {open_ones}"
    for earlier, later in pairwise(attempts):
        assert earlier.fence < later.fence, (earlier, later)
        assert earlier.ended_at is not None
        assert earlier.ended_at <= later.started_at, (earlier, later)


def check_ownership(jobs: Iterable[Job]) -> None:
    """No device had two owners, and no job two trainers, at any moment: by the rows, and by what the trainers lived."""
    wanted = [job.pk for job in jobs]
    by_device = defaultdict(list)
    for attempt in Attempt.objects.filter(job__in=wanted, ended_at__isnull=False):
        for name in attempt.devices:
            by_device[attempt.host, name].append((attempt.started_at, attempt.ended_at, str(attempt)))
    for device, owners in by_device.items():
        _assert_apart(owners, f"device {device}")
    for job_id in wanted:
        _assert_apart(_lives(job_id), f"trainers of job {job_id}")


def _lives(job_id: int) -> list[tuple[Any, Any, str]]:
    """When each attempt's trainer made its first and its last step."""
    lives: list[tuple[Any, Any, str]] = []
    for path in storage().job(job_id).path.glob(f"attempts/*/{LIVED}"):
        moments = [float(line) for line in path.read_text().split()]
        if moments:
            lives.append((moments[0], moments[-1], f"attempt {path.parent.name}"))
    return lives


def _assert_apart(intervals: Iterable[tuple[Any, Any, str]], whose: str) -> None:
    for (_, ended, first), (began, _, second) in pairwise(sorted(intervals)):
        assert ended <= began, f"{whose}: {first} and {second} at the same time"


def check_nothing_is_left_over(job: Job) -> None:
    """No process, no lease, no lock and no temporary file."""
    folder = storage().job(job.pk)
    assert not DeviceLease.objects.filter(attempt__job=job).exists(), f"job {job.pk} keeps a device"
    alive = [process.pid for process in processes_of(job)]
    assert not alive, f"job {job.pk}: processes {alive} are left"
    assert not is_locked(folder.lock_path), f"the folder of job {job.pk} is locked"
    left = [path.name for path in folder.path.rglob("*.tmp")] if folder.path.exists() else []
    assert not left, f"job {job.pk}: temporary files {left} are left"
    assert not folder.scratch_dir.exists(), f"job {job.pk}: its scratch folder is left"


def processes_of(job: Job) -> Iterator[psutil.Process]:
    """Engines at work on it, and what they started, by what their supervisor wrote into their environment."""
    attempts = Attempt.objects.filter(job=job).values_list("pk", flat=True)
    mine = {f"{Path(settings.DATA_DIR)}:{attempt}" for attempt in attempts}
    for process in psutil.process_iter(["environ", "status"]):
        environment = process.info["environ"] or {}
        if process.info["status"] != psutil.STATUS_ZOMBIE and environment.get("FOVEA_ATTEMPT") in mine:
            yield process
