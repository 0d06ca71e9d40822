from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from django.conf import settings
from django.db.models import Exists, OuterRef

from jobs.clocks import database_now
from jobs.doctor.finding import Finding, ok, problem, warning
from jobs.janitor import stale_files
from jobs.models import Attempt, Job
from jobs.records import behind
from jobs.states import ENDED, LIVE
from jobs.storage import storage

SHOWN = 5
HEARTBEATS_MISSED = 2
"""Leases without a sign of life, after which a job's supervisor is gone; an agent takes over much sooner."""


def stuck() -> Iterator[Finding]:
    name = "jobs.stuck"
    open_attempts = Attempt.objects.filter(job=OuterRef("pk"), ended_at=None)
    without = Job.objects.filter(~Exists(open_attempts), status__in=LIVE).values_list("pk", flat=True)
    ended = Attempt.objects.filter(ended_at=None, job__status__in=ENDED).values_list("job_id", flat=True)
    silent_since = database_now().timestamp() - HEARTBEATS_MISSED * settings.LEASE_S
    silent = [
        attempt.job_id
        for attempt in Attempt.objects.filter(ended_at=None)
        if (attempt.heartbeat_at or attempt.started_at).timestamp() < silent_since
    ]
    if without:
        yield problem(
            name, f"{_jobs(without)} should run, and nothing does.", "Start Fovea: the agent queues them again."
        )
    if ended:
        yield problem(name, f"{_jobs(ended)} have ended, and an attempt has not.", "Start Fovea: the agent closes it.")
    if silent:
        yield problem(
            name,
            f"Nobody looks after {_jobs(silent)}.",
            "Start Fovea on the machine that it ran on; of one that is gone another host takes over within a day.",
        )
    if not without and not ended and not silent:
        yield ok(name, "No job is stuck.")


def orphans() -> Iterator[Finding]:
    name = "jobs.orphans"
    places = storage()
    folders = {
        int(path.name): path
        for parent in (places.jobs_dir, places.trash_dir)
        if parent.is_dir()
        for path in parent.iterdir()
        if path.name.isdecimal()
    }
    known = set(Job.objects.values_list("pk", flat=True))
    unknown = sorted(folders.keys() - known)
    begun = Job.objects.filter(attempts__isnull=False).distinct().values_list("pk", flat=True)
    lost = sorted(set(begun) - folders.keys())
    if unknown:
        yield warning(
            name,
            f"The database does not know the folders {_some([str(folders[job_id]) for job_id in unknown])}.",
            "If jobs are missing, rebuild an empty database from the files; else move the folders away.",
        )
    if lost:
        yield warning(
            name,
            f"The files of {_jobs(lost)} are gone.",
            "Restore them from a backup with all files, or delete the jobs.",
        )
    if not unknown and not lost:
        yield ok(name, f"{len(folders):,} folders and {len(known):,} rows belong together.")


def temporary_files() -> Iterator[Finding]:
    name = "jobs.temporary_files"
    stale = list(islice(stale_files(), SHOWN + 1))
    if stale:
        yield warning(
            name,
            f"Processes that were killed left {_some([str(path) for path in stale])}.",
            "Nothing needs to be done: the agent removes them when it starts.",
        )
    else:
        yield ok(name, "No temporary file is left over.")


def records() -> Iterator[Finding]:
    """Slow with many jobs: every record is compared with its rows."""
    name = "jobs.records"
    found = list(islice(behind(), SHOWN + 1))
    if found:
        yield warning(
            name,
            f"The record.json of {_jobs(found)} does not say what the database says.",
            "The agent writes them when it starts. If it stays, see that the folders can be written.",
        )
    else:
        yield ok(name, "Every job has a record from which the database could be made again.")


def _jobs(ids: Iterable[int]) -> str:
    numbers = [f"#{job_id}" for job_id in ids]
    return f"{'job' if len(numbers) == 1 else 'jobs'} {_some(numbers)}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and more"
