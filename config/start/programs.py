"""The services of one machine, in the order of their start, and supervisor's configuration for them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from config.start.places import Places
from config.start.preflight import StartError

LOG_BYTES = 10_000_000
LOG_BACKUPS = 3


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    command: tuple[str, ...]
    stop_s: int
    """How long it may take to stop before it is killed."""


def programs(*, places: Places, host: str, port: int, redis_server: Path | None) -> list[Program]:
    """Everything that runs beside ``up``; without a Redis of our own where ``redis_server`` is None."""
    python = sys.executable
    celery = (python, "-m", "celery", "-A", "config.celery")
    found = [
        Program("serve", _serve(places), stop_s=10),
        Program("web", _web(host, port), stop_s=10),
        Program(
            "worker",
            (*celery, "worker", "-P", "prefork", "-c", "2", "--without-gossip", "--without-mingle", "-l", "INFO"),
            stop_s=15,
        ),
        Program("beat", (*celery, "beat", "-s", str(places.run_dir / "beat"), "--pidfile=", "-l", "INFO"), stop_s=5),
        agent_program(),
    ]
    if redis_server:
        found.insert(0, Program("redis", (str(redis_server), str(places.redis_conf_path)), stop_s=5))
    return found


def agent_program() -> Program:
    """Starts jobs, and looks after them: all that a host needs which only lends its devices."""
    return Program("agent", (sys.executable, "manage.py", "agent"), stop_s=15)


def _serve(places: Places) -> tuple[str, ...]:
    where = ("--root", str(places.data_dir), "--socket", str(places.serve_socket_path))
    return (sys.executable, "-m", "engine", "serve", *where)


def _web(host: str, port: int) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "uvicorn", "config.asgi:application", "--host", host, "--port", str(port)),
        *("--ws", "websockets-sansio", "--lifespan", "off", "--timeout-graceful-shutdown", "3", "--no-server-header"),
        # Addresses hold invitation links, so they are not logged. X-Forwarded-* counts from FORWARDED_ALLOW_IPS alone.
        "--no-access-log",
        "--proxy-headers",
    )


def supervisor_conf(services: Iterable[Program], *, places: Places, project_dir: Path) -> str:
    """Text of a supervisord configuration. No secret stands in it: programs inherit the environment.

    Raises:
        StartError: A path cannot be written into it.
    """
    sections = [
        _section(
            "supervisord",
            nodaemon="true",
            umask="077",
            silent="true",
            logfile=places.logs_dir / "supervisor.log",
            logfile_maxbytes=LOG_BYTES,
            logfile_backups=LOG_BACKUPS,
            pidfile=places.run_dir / "supervisord.pid",
            directory=project_dir,
        ),
        _section("unix_http_server", file=places.supervisor_socket_path, chmod="0700"),
        "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n",
    ]
    for order, service in enumerate(services, start=1):
        sections.append(
            _section(
                f"program:{service.name}",
                command=shlex.join(service.command),
                directory=project_dir,
                priority=order,
                autorestart="true",
                # Restarted for ever, a second later each time; ``up`` says on the console that it keeps dying.
                startretries=1_000_000,
                startsecs=2,
                stopwaitsecs=service.stop_s,
                killasgroup="true",
                redirect_stderr="true",
                stdout_logfile=log_path(places, service.name),
                stdout_logfile_maxbytes=LOG_BYTES,
                stdout_logfile_backups=LOG_BACKUPS,
            )
        )
    return "\n".join(sections)


def log_path(places: Places, program: str) -> Path:
    return places.logs_dir / f"{program}.log"


def _section(title: str, **values: object) -> str:
    for value in values.values():
        # supervisor expands %(...)s in every value, once or twice by the key, so that no escape is right everywhere.
        if "%" in str(value):
            raise StartError(f"{value} holds a percent sign, which paths and addresses of services may not.")
    return "\n".join((f"[{title}]", *(f"{key} = {value}" for key, value in values.items()), ""))
