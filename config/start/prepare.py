"""What has to be done once for a new version, before any service of it starts: the database, then the static files."""

from __future__ import annotations

from collections.abc import Callable

from django.core.management import call_command
from django.db import OperationalError

from config.start.places import Places
from config.start.preflight import StartError
from config.start.static import collect_static
from jobs.backup import back_up_before_migrating
from jobs.models import Job
from jobs.rebuild import bring_back_missing, n_missing
from wire.errors import DiskFull

Say = Callable[[str], None]


def prepare(places: Places, say: Say) -> None:
    """Costs a second where there is nothing to do. Jobs may run meanwhile.

    Raises:
        StartError: The database cannot be used, could not be copied, or is empty where there are files of jobs.
    """
    try:
        _copy_before_migrating(say)
        call_command("migrate", interactive=False, verbosity=0)
        _bring_back_missing(say)
    except OperationalError as problem:
        raise StartError(f"the database cannot be used: {first_line(problem)}. See DATABASE_URL.") from None
    collect_static(places.static_stamp_path)


def _copy_before_migrating(say: Say) -> None:
    """What a new version is about to change can be had back as it was.

    Raises:
        StartError: It could not be copied; nothing was changed.
    """
    try:
        copied = back_up_before_migrating(say)
    except (DiskFull, OSError) as problem:
        raise StartError(
            f"the database would be changed for this version, and could not be copied first: {first_line(problem)}. "
            "Free some space, or make a backup elsewhere and run manage.py migrate."
        ) from None
    if copied:
        say(f"The database is changed for this version; as it was it is in {copied}")


def _bring_back_missing(say: Say) -> None:
    """Before a new job can get the number, and with it the folder, of one that the database does not know.

    Raises:
        StartError: It knows none of the jobs in ``DATA_DIR``: perhaps it is another one's.
    """
    n_jobs = n_missing()
    if n_jobs and not Job.objects.exists():
        raise StartError(
            f"the database is empty, and DATA_DIR has {n_jobs} jobs. Run manage.py rebuild to bring them back, or set "
            "DATABASE_URL or DATA_DIR to the one that belongs to the other."
        )
    if n_jobs and (n_back := bring_back_missing(say).n_jobs):
        say(f"The database was older than the files: {n_back} jobs were brought back from their folders.")


def first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0].rstrip(".")
