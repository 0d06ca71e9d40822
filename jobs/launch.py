"""Starts supervisors, each detached from whoever starts it, and sees to it that an attempt has one."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from jobs.host import host_name, is_shared_database
from jobs.models import Attempt
from jobs.process import ProcessIdentity, alive, boot_id, identify, identify_self
from jobs.storage import storage
from wire.layout import AttemptDir

log = logging.getLogger(__name__)
_children: list[subprocess.Popen[bytes]] = []


def start_supervisor(attempt: Attempt) -> None:
    """Start one in a session of its own, so that it outlives worker, agent and terminal."""
    reap()
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "supervise", str(attempt.pk)]
    with _output(storage().job(attempt.job_id).attempt(attempt.n)) as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            close_fds=True,
        )
    _children.append(child)
    started = identify(child.pid)
    if started is not None:
        _take(attempt, started)


def _output(folder: AttemptDir) -> BinaryIO:
    """The supervisor's log. On a full disk none: what becomes of the attempt then is for the supervisor to say."""
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        return folder.supervisor_log_path.open("ab")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        log.warning("attempt=%s has no log: %s", folder.path, error)
        return Path(os.devnull).open("wb")


def reap() -> None:
    """Let ended supervisors go; unread they would stay as zombies for as long as this process lives."""
    _children[:] = [child for child in _children if child.poll() is None]


def supervisor_of(attempt: Attempt) -> ProcessIdentity | None:
    if attempt.supervisor_pid is None or attempt.supervisor_started is None:
        return None
    return ProcessIdentity(attempt.boot_id, attempt.supervisor_pid, attempt.supervisor_started)


def engine_of(attempt: Attempt) -> ProcessIdentity | None:
    if attempt.pid is None or attempt.pid_started is None:
        return None
    return ProcessIdentity(attempt.boot_id, attempt.pid, attempt.pid_started)


def is_supervised(attempt: Attempt) -> bool:
    supervisor = supervisor_of(attempt)
    return supervisor is not None and alive(supervisor)


def claim(attempt_id: int) -> Attempt | None:
    """Make the calling process the supervisor of the attempt.

    None where it has one or has ended, and where it is another host's, whose processes cannot be seen from here.
    """
    me = identify_self()
    while True:
        attempt = Attempt.objects.select_related("job").get(pk=attempt_id)
        if attempt.ended_at is not None or not _is_here(attempt):
            return None
        if supervisor_of(attempt) == me:
            return attempt
        if is_supervised(attempt):
            return None
        _take(attempt, me)


def _is_here(attempt: Attempt) -> bool:
    return not is_shared_database() or attempt.host == host_name()


def _take(attempt: Attempt, supervisor: ProcessIdentity) -> None:
    """Write the supervisor down, unless somebody else did since the row was read."""
    columns: dict[str, object] = {
        "boot_id": supervisor.boot_id,
        "supervisor_pid": supervisor.pid,
        "supervisor_started": supervisor.started,
    }
    if attempt.pid is not None and attempt.boot_id != boot_id():
        columns["pid_started"] = 0  # before a reboot: no process of this boot may be taken for it
    Attempt.objects.filter(
        pk=attempt.pk,
        ended_at__isnull=True,
        supervisor_pid=attempt.supervisor_pid,
        supervisor_started=attempt.supervisor_started,
    ).update(**columns)
