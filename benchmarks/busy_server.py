"""Twenty runs that log twenty series ten times a second each, and people who look at the pages meanwhile.

The whole product as a person starts it, over a scripted engine; the devices of the runs are rows that nothing stands
behind. Four browsers ask for the pages and what their scripts ask for, one after the other, half a second apart, each
answer read to its end; a socket listens to each run. Afterwards every event must be in the rows and have come over its
socket, once.

    python -m benchmarks.busy_server [--runs 20] [--seconds 120] [--database sqlite]
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import threading
import time
from collections import defaultdict
from typing import Any, Self

import numpy as np

from benchmarks.browsers import Browser
from benchmarks.installation import Database, Installation, installed
from benchmarks.reconnects import scripted

N_SERIES = 20
HZ = 10
N_PEOPLE = 4
THINK_S = 0.5
COME_UP_S = 90
"""Until all of the runs have begun: each starts two processes."""

PAGES = (
    "/",
    "/?status=active",
    "/runs/{run}/",
    "/runs/new",
    "/api/v1/jobs?verb=train",
    "/api/v1/jobs/{run}",
    "/api/v1/jobs/{run}/curves?max_points=5000",
    "/api/v1/jobs/{run}/log",
    "/api/v1/devices",
)


def measure(*, n_runs: int, seconds: float, database: Database) -> dict[str, Any]:
    n_points = int((seconds + COME_UP_S) * HZ)
    with installed(database, **scripted(n_points, HZ, N_SERIES)) as installation:
        installation.make_devices(n_runs)
        dataset = installation.import_digits()
        ids = [installation.train(dataset, f"run {n}") for n in range(n_runs)]
        installation.until_running(ids)
        with _Listeners(installation, ids) as listeners:
            visits = _visited(installation, ids, seconds)
            installation.until_ended(ids, patience_s=n_points / HZ + 600)
            last_seqs = {job_id: installation.job(job_id)["last_seq"] for job_id in ids}
            listeners.wait_for(last_seqs)
        installation.check_whole(ids)
    expected = 2 * n_points
    return {
        "database": database,
        "runs": n_runs,
        "log_points_a_second": n_runs * HZ,
        "values_a_second": n_runs * HZ * N_SERIES,
        "events_recorded": sum(last_seqs.values()),
        "runs_with_all_events": sum(seq >= expected for seq in last_seqs.values()),
        "sockets_with_all_events": sum(each.last_seq == last_seqs[each.job_id] for each in listeners.browsers),
        "missed": sum(each.n_missed for each in listeners.browsers),
        "doubled": sum(each.n_doubled for each in listeners.browsers),
        "answers": sum(len(times) for times in visits.times_ms.values()),
        "not_200": visits.n_refused,
        "all_pages_ms": _percentiles([one for times in visits.times_ms.values() for one in times]),
        "by_page_ms": {page: _percentiles(times) for page, times in visits.times_ms.items()},
    }


def _percentiles(times_ms: list[float]) -> dict[str, int]:
    return {f"p{p}": round(float(np.percentile(times_ms, p))) for p in (50, 95, 99)} | {"most": round(max(times_ms))}


class _Visits:
    def __init__(self) -> None:
        self.times_ms: dict[str, list[float]] = defaultdict(list)
        self.n_refused = 0
        self._lock = threading.Lock()

    def note(self, page: str, took_ms: float, status: int) -> None:
        with self._lock:
            self.times_ms[page].append(took_ms)
            self.n_refused += status != 200


def _visited(installation: Installation, ids: list[int], seconds: float) -> _Visits:
    visits = _Visits()
    cookie = f"sessionid={installation.session()}"
    ends_at = time.monotonic() + seconds

    def visit(first: int) -> None:
        n = first
        while time.monotonic() < ends_at:
            page = PAGES[n % len(PAGES)]
            began = time.perf_counter()
            status = _asked(installation, page.format(run=ids[n % len(ids)]), cookie)
            visits.note(page, 1000 * (time.perf_counter() - began), status)
            n += 1
            time.sleep(THINK_S)

    people = [threading.Thread(target=visit, args=(3 * n,)) for n in range(N_PEOPLE)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    return visits


def _asked(installation: Installation, path: str, cookie: str) -> int:
    """Status of the answer, once all of it was read."""
    connection = http.client.HTTPConnection("127.0.0.1", installation.stack.port, timeout=60)
    try:
        connection.request("GET", path, headers={"Cookie": cookie, "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        answer.read()
    except OSError:
        return 0
    else:
        return answer.status
    finally:
        connection.close()


class _Listeners:
    """A socket on each run, in a thread of its own."""

    def __init__(self, installation: Installation, ids: list[int]) -> None:
        self.browsers = [Browser(installation, job_id) for job_id in ids]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._tasks = [asyncio.run_coroutine_threadsafe(each.stay(), self._loop) for each in self.browsers]
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        asyncio.run_coroutine_threadsafe(_rest(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait_for(self, last_seqs: dict[int, int], *, patience_s: float = 30) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if all(each.last_seq >= last_seqs[each.job_id] for each in self.browsers):
                return
            time.sleep(0.2)


async def _rest() -> None:
    """Until the tasks that were cancelled have closed their connections."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    told = parser.parse_args()
    found = measure(n_runs=told.runs, seconds=told.seconds, database=told.database)
    print(json.dumps(found, indent=2))
    whole = found["runs_with_all_events"] == found["sockets_with_all_events"] == told.runs
    if not whole or found["missed"] or found["doubled"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
