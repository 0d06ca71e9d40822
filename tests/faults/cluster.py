"""A PostgreSQL server that a test may kill, and Django turned to a database of it for the length of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections

TEMPLATE = "migrated"


class Cluster:
    """A server of its own in a temporary folder, on a unix socket and on a TCP port of the loopback."""

    def __init__(self, *, durable: bool = False) -> None:
        self._fsync = "on" if durable else "off"
        self.folder = Path(tempfile.mkdtemp(prefix="fovea-postgres-"))
        self.port = _free_port()
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._program("initdb", "--pgdata", str(self.data), "--username", "fovea", "--auth", "trust", "--no-sync")
        self.start()
        self._names = count(1)
        self._migrated = False

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, name: str, *, tcp: bool = False) -> str:
        host = "127.0.0.1" if tcp else str(self.folder).replace("/", "%2F")
        return f"postgres://fovea@{host}:{self.port}/{name}"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        told = (
            "--options",
            f"{options} -c fsync={self._fsync} -c max_connections=80",
            "--log",
            str(self.folder / "log"),
        )
        self._program("pg_ctl", "--pgdata", str(self.data), "--wait", "--silent", *told, "start")

    def crash(self) -> None:
        """As if it had been killed: no connection is ended in order, and the next start recovers."""
        self._program("pg_ctl", "--pgdata", str(self.data), "--mode", "immediate", "--silent", "stop")

    @property
    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def execute(self, statement: str) -> None:
        """As superuser, outside every transaction."""
        with psycopg.connect(self._address(), autocommit=True) as server:
            server.execute(statement)

    def new_database(self) -> str:
        """A name; the database has every table and no row."""
        if not self._migrated:
            self._migrate()
        name = f"test{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def as_it_was(self) -> None:
        """Undo what a test did to the server, so that the next one finds it running with the settings of ``start``."""
        changed = (self.data / "postgresql.auto.conf").read_text().count("=")
        if self.is_running and not changed:
            return
        (self.data / "postgresql.auto.conf").write_text("")
        if self.is_running:
            self.crash()
        self.start()

    def remove(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _migrate(self) -> None:
        self.execute(f"CREATE DATABASE {TEMPLATE}")
        with django_on(self.url(TEMPLATE)):
            call_command("migrate", verbosity=0)
        self._migrated = True

    def _address(self) -> str:
        return f"host={self.folder} port={self.port} user=fovea dbname=postgres"

    def _program(self, name: str, *arguments: str) -> None:
        # PostgreSQL refuses to run as root.
        as_postgres = ("runuser", "-u", "postgres", "--") if os.getuid() == 0 else ()
        command = [*as_postgres, str(_programs() / name), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def django_on(url: str) -> Iterator[None]:
    """Everything that this process asks the database is asked there."""
    from config import settings as project  # not before who uses this has set the environment

    before, before_connection = connections.settings["default"], connections["default"]
    before_connection.close()
    database = project._database(url)
    connections.settings["default"] = connections.configure_settings({"default": database})["default"]
    connections["default"] = connections.create_connection("default")
    try:
        yield
    finally:
        connection.close()
        connections.settings["default"] = before
        connections["default"] = before_connection


def _programs() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if folders:
        return folders[-1]
    found = shutil.which("initdb")
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    return Path(found).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
