from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from jobs import stream
from jobs.clocks import clock_ahead_s, database_now
from jobs.doctor.finding import Finding, ok, problem, warning
from jobs.hosts import fovea_version
from jobs.models import Host, Job
from jobs.process import ProcessIdentity, alive
from jobs.states import ENDED, Status
from jobs.storage import storage

AGENT_IS_GONE_AFTER = timedelta(seconds=45)
"""It says every ten seconds that it is there."""
FORGOTTEN_AFTER = timedelta(days=7)
CLOCK_WARNING_S, CLOCK_PROBLEM_S = 2.0, 30.0


def redis() -> Iterator[Finding]:
    name = "services.redis"
    if stream.reachable():
        yield ok(name, "Redis answers.")
    else:
        yield warning(
            name, "Redis does not answer: pages look for news every two seconds.", "See that it runs, and REDIS_URL."
        )


def programs() -> Iterator[Finding]:
    """What ``manage.py up`` keeps running; under systemd or in containers they are looked after elsewhere."""
    name = "services.programs"
    try:
        state = json.loads((storage().run_dir / "state.json").read_text())
        supervisord = ProcessIdentity(**state["supervisord"])
        started = {program: ProcessIdentity(**process) for program, process in state["programs"].items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        yield ok(name, "No start by make run is known here.")
        return
    if not alive(supervisord):
        yield warning(name, "The last start by make run was not ended in order.", "Start it again: make run.")
        return
    for program, process in sorted(started.items()):
        if alive(process):
            yield ok(name, f"{program} runs since {_age_text(process)}.")
        else:
            log = storage().root / "logs" / f"{program}.log"
            yield problem(name, f"{program} does not run.", f"It is started again; the cause is at the end of {log}.")


def agents() -> Iterator[Finding]:
    """Without one nothing starts when Redis is away, and nobody takes over what a crash left."""
    name = "services.agents"
    now = database_now()
    hosts = list(Host.objects.filter(seen_at__gt=now - FORGOTTEN_AFTER).order_by("name"))
    gone = [host for host in hosts if now - host.seen_at > AGENT_IS_GONE_AFTER]
    for host in hosts:
        if host not in gone:
            yield ok(name, f"The agent of {host.name} is at work.")
    for host in gone:
        yield warning(
            name,
            f"The agent of {host.name} was last seen {host.seen_at:%Y-%m-%d %H:%M:%S} UTC.",
            "Start Fovea on that machine, or leave it if it is out of service.",
        )
    if len(gone) == len(hosts):
        n_waiting = Job.objects.exclude(status__in=[*ENDED, Status.PAUSED]).filter(trashed_at=None).count()
        if n_waiting:
            yield problem(name, f"No agent is at work, and {n_waiting:,} jobs have not ended.", "Start Fovea.")
        else:
            yield warning(name, "No agent is at work.", "Start Fovea: make run.")
    versions = {str(host.versions.get("fovea")) for host in hosts if host not in gone}
    if versions - {fovea_version()}:
        yield problem(
            name,
            f"Hosts run different versions: {', '.join(sorted(versions | {fovea_version()}))}.",
            "Bring all of them to the same one.",
        )


def clocks() -> Iterator[Finding]:
    name = "services.clocks"
    off = {"this host": clock_ahead_s()} | {host.name: host.clock_ahead_s for host in Host.objects.order_by("name")}
    wrong = {where: ahead_s for where, ahead_s in off.items() if abs(ahead_s) > CLOCK_WARNING_S}
    if not wrong:
        yield ok(name, f"Clocks agree with the database's to {max(abs(ahead_s) for ahead_s in off.values()):.1f} s.")
    for where, ahead_s in wrong.items():
        text = (
            f"The clock of {where} is {abs(ahead_s):,.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the database's."
        )
        finding = problem if abs(ahead_s) > CLOCK_PROBLEM_S else warning
        yield finding(name, text, "Let it keep time by NTP.")


def _age_text(process: ProcessIdentity) -> str:
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    age_s = up_s - process.started / os.sysconf("SC_CLK_TCK")
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - age_s))
