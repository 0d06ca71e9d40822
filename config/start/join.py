"""``python -m config.start.join FILE``: lend this machine's devices to the Fovea of another host, until Ctrl-C.

It runs an agent, and nothing that a person talks to. Celery is not needed: what it rings for, the agent does every two
seconds, and a worker here would take bells away from the host that they are meant for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from config.start.invitation import InvitationError, read_invitation

REFUSED = 2


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        _say("Which Fovea? make worker JOIN=/where/its/DATA_DIR/is/mounted")
        return REFUSED
    place = Path(arguments[0]).expanduser().resolve()
    try:
        invitation = read_invitation(place)
    except InvitationError as problem:
        _say(f"This host cannot join: {problem}")
        return REFUSED
    data_dir = place if place.is_dir() else place.parent
    _set_up(data_dir, database_url=invitation.database_url, redis_url=invitation.redis_url)
    refusals = invitation.refusals()
    if not refusals:
        import django

        # Settings are read now, and say what was just set.
        django.setup()
        from config.start.worker import run_worker

        refusals = run_worker()
    for refusal in refusals:
        _say(f"This host cannot join: {refusal}")
    return REFUSED if refusals else 0


def _set_up(data_dir: Path, *, database_url: str, redis_url: str) -> None:
    """What is the other host's; the rest of the settings is this one's own."""
    own_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fovea"
    os.environ |= {
        "DATA_DIR": str(data_dir),
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CACHE_DIR": os.environ.get("CACHE_DIR") or str(own_cache),
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE") or "config.settings",
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  the console is its purpose


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
