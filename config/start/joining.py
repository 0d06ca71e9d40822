"""What must hold before a host may work beside others: one database of one version, one folder, a name each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models.functions import Now

from config.start.prepare import first_line
from jobs import stream
from jobs.host import host_name
from jobs.hosts import fovea_version, has_proof
from jobs.models import Host
from jobs.process import boot_id

SEEN_WITHIN = timedelta(minutes=1)


def refusals() -> list[str]:
    """Why this host may not join; a line each, none where it may. Cost: queries, and reads in the shared folder."""
    try:
        found = list(_of_version()) or list(_of_hosts())
    except DatabaseError as problem:
        place = connection.settings_dict
        return [f"the database at {place['HOST']}:{place['PORT'] or 5432} cannot be used: {first_line(problem)}."]
    if not stream.reachable():
        found.append("Redis does not answer at the address that the first host gave. See REDIS_URL there.")
    return found


def _of_version() -> Iterator[str]:
    """Its tables are those that the code here is written for."""
    loader = MigrationExecutor(connection).loader
    known, applied = set(loader.graph.nodes), set(loader.applied_migrations)
    apps = {app for app, _ in known}
    if known - applied:
        yield "the database is of an earlier version than this checkout. Start the first host with the same version."
    if any(app in apps and (app, name) not in known for app, name in applied):
        yield "the database is of a later version than this checkout. Update it to the version of the first host."


def _of_hosts() -> Iterator[str]:
    seen = list(Host.objects.filter(seen_at__gt=Now() - SEEN_WITHIN).order_by("name"))
    others = [host for host in seen if host.name != host_name()]
    if any(host.name == host_name() and host.boot_id != boot_id() for host in seen):
        yield f"another host named {host_name()} is at work. Give this one a name of its own (hostnamectl hostname)."
    if not others:
        yield "no other host is at work there. Start Fovea on the first host; its agent has to run."
        return
    names = ", ".join(host.name for host in others)
    strange = sorted({host.versions.get("fovea", "?") for host in others} - {fovea_version()})
    if strange:
        theirs = ", ".join(strange)
        yield f"{names} runs Fovea {theirs}, this checkout is {fovea_version()}. Update them to the same version."
    if not any(has_proof(host) for host in others):
        yield (
            f"this folder is not the one that {names} works in, but another or a copy. Mount the DATA_DIR of the first"
            " host itself."
        )
