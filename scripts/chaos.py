"""Faults at random, every 1.5 to 3.5 seconds, on three hosts that work on four jobs at a time. For ``make chaos``.

PostgreSQL, Redis, agents, supervisors and a Celery worker are real; trainers are the scripted one; a host is a
namespace of processes with a host name of its own. Afterwards the history of every job is looked at. Needs root.

    python scripts/chaos.py --minutes 5 [--seed 7] [--json var/chaos.json] [--page docs/faults.md]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

PROJECT_DIR = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT_DIR))

if TYPE_CHECKING:
    from jobs.models import Job
    from tests.faults.nemesis import Nemesis

Answer = TypeVar("Answer")

N_HOSTS, N_JOBS = 3, 4
STEPS, STEP_S = 400, 0.05
PATIENCE_S = 600
"""After the last fault, until every job has ended."""


def main() -> int:
    arguments = _parser().parse_args()
    if os.getuid() != 0:
        sys.stderr.write("make chaos needs root: each host is a namespace of its own.\n")
        return 2
    print(f"seed {arguments.seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="fovea-chaos-"))
    with _installation(root, arguments.seed) as nemesis:
        found = _run(nemesis, arguments.minutes * 60)
    found |= {"seed": arguments.seed, "minutes": arguments.minutes, "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "faults"}, indent=1))
    if arguments.page is not None:
        page = ("--chaos", str(arguments.json), "--write", str(arguments.page))
        subprocess.run([sys.executable, str(PROJECT_DIR / "scripts/faults_page.py"), *page], check=True)
    if found["verdict"] == "passed":
        shutil.rmtree(root)
        return 0
    print(f"What the services said, and the jobs, are in {root}.")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="for how long faults happen")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of what happens, and when")
    parser.add_argument("--json", type=Path, default=PROJECT_DIR / "var/chaos.json", help="where the result goes")
    parser.add_argument("--page", type=Path, help="where a line of it goes, too")
    return parser


@contextmanager
def _installation(root: Path, seed: int) -> Iterator[Nemesis]:
    from tests.faults.cluster import Cluster

    cluster = Cluster()
    os.environ |= {
        "FOVEA_TEST_ROOT": str(root),
        "FOVEA_TEST_ENGINE": os.pathsep.join([sys.executable, str(PROJECT_DIR / "tests/jobs/scripted_engine.py")]),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": str(PROJECT_DIR),
        "DATABASE_URL": cluster.url("chaos"),
        "LEASE_S": "5",
        "OMP_NUM_THREADS": "1",
    }
    cluster.execute("CREATE DATABASE chaos")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from tests.conftest import RedisServer
    from tests.faults.nemesis import Nemesis, Simulated

    call_command("migrate", verbosity=0)
    redis = RedisServer(Path(settings.DATA_DIR) / "redis.sock")
    redis.start()
    hosts = [Simulated(f"host-{n}", root / f"host-{n}.txt", with_worker=n == 1) for n in range(1, N_HOSTS + 1)]
    try:
        yield Nemesis(random.Random(seed), hosts, cluster, redis)  # noqa: S311 - moments, no secrets
    finally:
        for host in hosts:
            host.die()
        redis.kill()
        cluster.remove()


def _run(nemesis: Nemesis, seconds: float) -> dict[str, Any]:
    jobs = _Jobs()
    ends_at = time.monotonic() + seconds
    strikes_at = time.monotonic() + 10  # the hosts begin
    while time.monotonic() < ends_at:
        nemesis.mend()
        jobs.keep_busy()
        if time.monotonic() >= strikes_at:
            nemesis.strike()
            strikes_at = time.monotonic() + nemesis.gap_s()
        time.sleep(0.1)
    nemesis.mend(everything=True)
    print(f"{len(nemesis.done)} faults; waiting for the last jobs", flush=True)
    deadline = time.monotonic() + PATIENCE_S
    while not (jobs.all_ended() and nemesis.is_quiet()) and time.monotonic() < deadline:
        time.sleep(0.5)
    kinds = Counter(kind for _, kind, _ in nemesis.done)
    return {"n_faults": len(nemesis.done), "kinds": kinds, **jobs.judged(), "faults": nemesis.done}


class _Jobs:
    """Four at a time."""

    def __init__(self) -> None:
        from django.contrib.auth.models import User

        self._owner = User.objects.create_user("chaos")
        self._looks_at = 0.0

    def keep_busy(self) -> None:
        if time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + 1
            self._or_nothing(lambda: [self._submit() for _ in range(N_JOBS - self._count_open())])

    def all_ended(self) -> bool:
        return self._or_nothing(lambda: not self._count_open()) or False

    def _or_nothing(self, question: Callable[[], Answer]) -> Answer | None:
        """None where the database is away."""
        from django.db import DatabaseError, connection

        try:
            return question()
        except DatabaseError:
            connection.close()
            return None

    def _count_open(self) -> int:
        from jobs.models import Job
        from jobs.states import ENDED

        return Job.objects.exclude(status__in=ENDED).count()

    def _submit(self) -> Job:
        from jobs import tasks, transitions
        from jobs.states import Status
        from tests.faults.nemesis import CHECKPOINT_EVERY

        script = {"steps": STEPS, "step_s": STEP_S, "checkpoint_every": CHECKPOINT_EVERY}
        spec = {"verb": "train", "model": {"name": "lenet5"}, "script": script}
        columns: dict[str, Any] = {
            "verb": "train",
            "spec": spec,
            "title": "chaos",
            "owner": self._owner,
            "wants": ["cpu"],
        }
        job = transitions.begin(status=Status.QUEUED, **columns)
        tasks.ring()
        return job

    def judged(self) -> dict[str, Any]:
        """What the history checker says of every job, counted."""
        from jobs.models import Attempt, Job
        from jobs.states import Status
        from tests.faults import history

        jobs = list(Job.objects.order_by("pk"))
        checks: dict[str, tuple[Callable[[Job], None], ...]] = {
            "n_gaps": (history.check_events, history.check_transitions),
            "n_overlaps": (history.check_attempts, lambda job: history.check_ownership([job])),
            "n_left_over": (history.check_nothing_is_left_over,),
        }
        faults = {name: _complaints(jobs, checks_of) for name, checks_of in checks.items()}
        faults["n_overlaps"] += _complaints([jobs], (history.check_ownership,))
        n_done = sum(job.status == Status.SUCCEEDED for job in jobs)
        whole = n_done == len(jobs) and not any(faults.values())
        return {
            "n_jobs": len(jobs),
            "n_done": n_done,
            "n_attempts": Attempt.objects.count(),
            "n_events": sum(job.last_seq for job in jobs),
            **{name: len(said) for name, said in faults.items()},
            "said": [line for said in faults.values() for line in said],
            "not_done": [f"{job}: {job.error_message}" for job in jobs if job.status != Status.SUCCEEDED],
            "verdict": "passed" if whole else "failed",
        }


def _complaints(subjects: Iterable[Any], checks: Iterable[Callable[[Any], None]]) -> list[str]:
    said = []
    for subject in subjects:
        for check in checks:
            try:
                check(subject)
            except AssertionError as complaint:
                said.append(str(complaint).splitlines()[0])
    return said


if __name__ == "__main__":
    raise SystemExit(main())
