from __future__ import annotations

from collections.abc import Iterator

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from jobs.doctor.finding import Finding, ok, problem, warning


def answers() -> Iterator[Finding]:
    name = "database.answers"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        first_line = str(error).strip().partition("\n")[0]
        yield problem(
            name, f"The database does not answer: {first_line}.", "See that it runs, and look at DATABASE_URL."
        )
        return
    version = ".".join(map(str, connection.get_database_version()))
    yield ok(name, f"{connection.display_name} {version} answers.")


def migrations() -> Iterator[Finding]:
    name = "database.migrations"
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    known = set(executor.loader.disk_migrations)
    unknown = [key for key in executor.loader.applied_migrations if key not in known]
    if pending:
        migration, _ = pending[0]
        yield problem(
            name, f"{len(pending)} migrations are not applied, {migration} the first.", "Run manage.py migrate."
        )
    elif unknown:
        app, newest = max(unknown)
        yield problem(
            name,
            f"The database was changed by a newer version of Fovea: {app}.{newest} is not known here.",
            "Use that version, or restore the backup that was made before.",
        )
    else:
        yield ok(name, "Every migration is applied.")


def journal() -> Iterator[Finding]:
    """SQLite's; PostgreSQL has nothing to choose."""
    if connection.vendor != "sqlite":
        return
    name = "database.journal"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
    if mode == "wal":
        yield ok(name, "SQLite writes ahead, so that readers and writers do not wait for each other.")
    else:
        yield warning(
            name,
            f"SQLite's journal mode is {mode}: pages wait for everything that is written.",
            "Let DATA_DIR lie on a local disk, or let DATABASE_URL name a PostgreSQL.",
        )
