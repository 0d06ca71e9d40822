"""``join.json``: what a second host needs to know, in the folder that it has to share anyway.

So nobody types a password, none stands in a process list, and who cannot read the folder cannot join. It holds the
addresses of the database and of Redis with their passwords, and only its owner can read it. ``DATA_DIR`` is not in it:
it is the folder that the file lies in, wherever that is mounted.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

FILE_NAME = "join.json"
DATABASE_SCHEMES = ("postgres", "postgresql")
REDIS_SCHEMES = ("redis", "rediss")


class InvitationError(Exception):
    """The file is none, or cannot be read. The message is one line."""


@dataclass(frozen=True, slots=True)
class Invitation:
    database_url: str
    redis_url: str

    def refusals(self) -> list[str]:
        """Why another host cannot work with these addresses; a line each."""
        return [*_database_refusals(self.database_url), *_redis_refusals(self.redis_url)]

    def write(self, data_dir: Path) -> Path:
        """Gives its place.

        Raises:
            OSError: it cannot be written.
        """
        path = data_dir / FILE_NAME
        beside = path.with_suffix(".tmp")
        beside.unlink(missing_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(self), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        return path


def read_invitation(place: Path) -> Invitation:
    """From the file, or from the folder that it lies in.

    Raises:
        InvitationError: it is not there, may not be read, or is something else.
    """
    try:
        path = place / FILE_NAME if place.is_dir() else place
        found = json.loads(path.read_text())
        return Invitation(database_url=str(found["database_url"]), redis_url=str(found["redis_url"]))
    except FileNotFoundError:
        hint = "Run make join-code on the first host, and mount its DATA_DIR here."
        raise InvitationError(f"{place} holds no {FILE_NAME}. {hint}") from None
    except PermissionError:
        hint = "Run this as the user that Fovea runs as on the first host."
        raise InvitationError(f"{place} may not be read. {hint}") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        hint = "Run make join-code on the first host again."
        raise InvitationError(f"{place} is no invitation ({problem}). {hint}") from None


def _database_refusals(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.scheme not in DATABASE_SCHEMES:
        yield (
            "the database is SQLite, a file that one host alone can use. Set DATABASE_URL to a PostgreSQL server that"
            " both hosts reach, and start the first host with it."
        )
    elif is_local(parts.hostname):
        yield _is_local_only("the database", "DATABASE_URL", parts.hostname, "--database-url")


def _redis_refusals(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.scheme not in REDIS_SCHEMES:
        yield (
            "Redis listens on a socket of the first host alone. Set REDIS_URL to one that both hosts reach by TCP, such"
            " as redis://:secret@cache:6379/0, and start the first host with it."
        )
    elif is_local(parts.hostname):
        yield _is_local_only("Redis", "REDIS_URL", parts.hostname, "--redis-url")


def _is_local_only(what: str, setting: str, name: str | None, option: str) -> str:
    return (
        f"{what} is named by {name or 'a socket'}, which is every host's own. Name it in {setting} as other hosts reach"
        f" it, or give that address to manage.py join_code with {option}."
    )


def is_local(name: str | None) -> bool:
    """Whether the name means another machine on every machine: loopback, or a folder of sockets."""
    if not name or name.startswith(("/", "%2f", "%2F")) or name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
