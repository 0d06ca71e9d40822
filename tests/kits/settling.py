"""Queued jobs done by the real engine inside the test, and recorded and closed as their supervisor does.

An engine of its own and a supervisor take seconds for each job; tests/flow has a few with both.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.__main__ import main
from jobs import transitions
from jobs.host import host_name
from jobs.models import Attempt, Job
from jobs.recorder import record
from jobs.states import Status
from jobs.storage import storage
from jobs.supervision.ending import close_by_exit
from jobs.supervision.engine import Exit
from jobs.supervision.spec import write_spec
from jobs.tail import Tail

_MEASURED = """
import resource, sys
from engine.__main__ import main
from tests.kits.memory import peak_bytes
status = main(sys.argv[1:])
print(max(peak_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
raise SystemExit(status)
"""


def settle(job: Job) -> Job:
    """Do a queued job now."""
    attempt = _begun(job)
    return _closed(attempt, engine_here(_arguments(attempt)))


def engine_here(arguments: Sequence[str]) -> int:
    """``python -m engine`` inside the test; returns its exit status."""
    with _as_before():
        return main(arguments)


def settle_measured(job: Job) -> tuple[Job, int]:
    """In a process of its own; returns the most bytes that it, or a child of it, had in memory."""
    attempt = _begun(job)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *_arguments(attempt)], stdout=subprocess.PIPE, check=False, text=True
    )
    return _closed(attempt, done.returncode), int(done.stdout.split()[-1])


def settle_as(job: Job, done: Path) -> Job:
    """As a job of the same spec ended whose folder this is; it is copied."""
    attempt = _begun(job)
    for name in ("artifacts", "events.jsonl", "attempts"):
        source, target = done / name, storage().job(job.pk).path / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    return _closed(attempt, 0)


@contextmanager
def _as_before() -> Iterator[None]:
    """The engine takes signals, sets a variable and chooses threads: all of it is undone."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    environment = dict(os.environ)
    torch = sys.modules.get("torch")
    n_threads = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if torch:
            torch.set_num_threads(n_threads)


def _begun(job: Job) -> Attempt:
    attempt = Attempt.objects.create(job=job, n=1, fence=1, host=host_name(), devices=[])
    assert transitions.move(job.pk, before=Status.QUEUED, after=Status.STARTING)
    storage().job(job.pk).attempt(1).path.mkdir(parents=True)
    write_spec(job, storage().job(job.pk))
    return attempt


def _arguments(attempt: Attempt) -> Sequence[str]:
    return attempt.job.verb, "--dir", str(storage().job(attempt.job_id).path), "--attempt", str(attempt.n)


def _closed(attempt: Attempt, status: int) -> Job:
    tail = Tail(storage().job(attempt.job_id).events_path, after=0)
    while envelopes := tail.read():
        record(attempt, envelopes)
    close_by_exit(attempt, Exit(code=status))
    return Job.objects.get(pk=attempt.job_id)
