"""What was deleted: looked at, brought back, removed for good."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Sequence
from datetime import datetime
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from pydantic import BaseModel

from jobs import transitions
from jobs.access import may_change, trashed_jobs
from jobs.database import atomically
from jobs.housekeeping import KEPT_IN_TRASH, remove_files, remove_rows
from jobs.models import Artifact, Job
from jobs.services.changes import names_of
from jobs.storage import storage
from wire.errors import ActionRefused, NotFound

log = logging.getLogger(__name__)


class TrashedJob(BaseModel):
    id: int
    verb: str
    title: str
    status: str
    owner: str
    private: bool
    part_of: int | None
    """The run that it was made of, where that one stayed."""
    n_parts: int
    """Evaluations, classifications and exports that went along, and would come back with it."""
    needs: list[int]
    """What it was made of and lies in the trash as well: that comes back with it."""
    disk_bytes: int
    """With all that went along."""
    trashed_at: datetime
    trashed_by: str
    """Empty where it is not known any more."""
    goes_at: datetime
    """When it is removed for good."""


def trash_of(user: User) -> list[TrashedJob]:
    """What this person may bring back, the newest first; what went along with a run is counted there. Three queries."""
    jobs = list(trashed_jobs(user).select_related("owner", "trashed_by").order_by("-trashed_at", "-pk"))
    by_id = {job.pk: job for job in jobs}
    along: dict[int, list[Job]] = {}
    for job in jobs:
        if _went_along(job, by_id):
            along.setdefault(job.part_of_id or 0, []).append(job)
    needed = _needed_by(by_id)
    return [_trashed(job, along.get(job.pk, []), needed.get(job.pk, [])) for job in jobs if not _went_along(job, by_id)]


def _went_along(job: Job, by_id: dict[int, Job]) -> bool:
    run = by_id.get(job.part_of_id or 0)
    return run is not None and run.trashed_at == job.trashed_at


def _needed_by(jobs: Collection[int]) -> dict[int, list[int]]:
    """Of each job those in the trash that made what it reads, or the run that it is a part of."""
    needed: dict[int, set[int]] = {}
    trashed = Job.objects.filter(trashed_at__isnull=False)
    inputs = trashed.filter(artifacts__uses__job__in=jobs).values_list("artifacts__uses__job", "pk")
    runs = trashed.filter(parts__in=jobs).values_list("parts", "pk")
    for job_id, maker_id in [*inputs, *runs]:
        if job_id != maker_id:
            needed.setdefault(job_id, set()).add(maker_id)
    return {job_id: sorted(makers) for job_id, makers in needed.items()}


def _trashed(job: Job, along: Sequence[Job], needs: list[int]) -> TrashedJob:
    if job.trashed_at is None:
        raise AssertionError("it is not in the trash")
    return TrashedJob(
        id=job.pk,
        verb=job.verb,
        title=job.title,
        status=job.status,
        owner=job.owner.username,
        private=job.private,
        part_of=job.part_of_id,
        n_parts=len(along),
        needs=needs,
        disk_bytes=job.disk_bytes + sum(part.disk_bytes for part in along),
        trashed_at=job.trashed_at,
        trashed_by=job.trashed_by.username if job.trashed_by else "",
        goes_at=job.trashed_at + KEPT_IN_TRASH,
    )


@atomically
def jobs_restore(user: User, ids: Iterable[int]) -> int:
    """Bring jobs back out of the trash with all that went along, and with what they were made of: all or none.

    Returns:
        How many came back, with those that came along.

    Raises:
        NotFound: one is not in the trash, not for this user, or its files are gone.
        ActionRefused: what it was made of is another's and in the trash; its files cannot be moved.
    """
    wanted = _found(user, ids)
    coming = _with_what_they_need(user, _with_parts(wanted, together=True))
    # Kept from the housekeeping, which would carry the folders back.
    _lock(coming)
    Job.objects.filter(pk__in=coming).update(trashed_at=None, trashed_by=None)
    for job_id in sorted(coming):
        _carry_back(job_id)
        transitions.announce(job_id)
    log.info("restored jobs=%s by %s", sorted(coming), user.username)
    return len(coming)


def _found(user: User, ids: Iterable[int]) -> dict[int, Job]:
    wanted = sorted(set(ids))
    jobs = {job.pk: job for job in trashed_jobs(user).select_related("owner").filter(pk__in=wanted)}
    _refuse_missing(wanted, jobs)
    return jobs


def _lock(ids: Collection[int]) -> None:
    """Nobody else brings them back or removes them before the transaction ends.

    Raises:
        NotFound: somebody did since they were looked for.
    """
    trashed = Job.objects.filter(pk__in=ids, trashed_at__isnull=False)
    _refuse_missing(ids, set(trashed.select_for_update().order_by("pk").values_list("pk", flat=True)))


def _refuse_missing(wanted: Iterable[int], found: Container[int]) -> None:
    missing = [job_id for job_id in sorted(wanted) if job_id not in found]
    if missing:
        raise NotFound(
            f"There is no #{missing[0]} in the trash.",
            hint="It was restored, or removed for good; reload the page.",
        )


def _with_parts(jobs: dict[int, Job], *, together: bool) -> dict[int, Job]:
    """With what was made of the runs among them: that which was deleted ``together`` with its run, or all."""
    parts = Job.objects.filter(part_of__in=jobs, trashed_at__isnull=False).select_related("owner", "part_of__owner")
    chosen = (part for part in parts if not together or part.trashed_at == jobs[part.part_of_id or 0].trashed_at)
    return jobs | {part.pk: part for part in chosen}


def _with_what_they_need(user: User, jobs: dict[int, Job]) -> dict[int, Job]:
    coming = dict(jobs)
    while True:
        needed = {maker for makers in _needed_by(coming.keys()).values() for maker in makers} - coming.keys()
        if not needed:
            return coming
        makers = Job.objects.select_related("owner", "part_of__owner").filter(pk__in=needed)
        coming |= _allowed(user, list(makers))


def _allowed(user: User, makers: Sequence[Job]) -> dict[int, Job]:
    foreign = [job for job in makers if not may_change(user, job)]
    if foreign:
        whose = ", ".join(sorted({job.owner.username for job in foreign}))
        raise ActionRefused(
            f"What it was made of is in the trash, too, and belongs to {whose}: {names_of(foreign, user)}.",
            hint=f"Ask {whose} or an administrator to restore that first.",
        )
    return {job.pk: job for job in makers}


def _carry_back(job_id: int) -> None:
    """The folder, where it lies in the trash; it may not have been carried there yet, or never have been."""
    trashed, place = storage().trashed(job_id), storage().job(job_id).path
    if trashed.is_dir():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            trashed.rename(place)
        except OSError as error:
            raise ActionRefused(
                f"The files of #{job_id} cannot be moved out of the trash: {error.strerror}.",
                hint="Whoever runs this server finds them in DATA_DIR/trash.",
            ) from error
    elif not place.is_dir() and Artifact.objects.filter(made_by=job_id, trashed_at=None).exists():
        raise NotFound(f"The files of #{job_id} are gone.", hint="It cannot be brought back; delete it for good.")


@atomically
def jobs_remove(user: User, ids: Iterable[int]) -> int:
    """Remove jobs that are in the trash for good, at once, with all that was made of them: all or none.

    Returns:
        How many rows went, with those that went along.

    Raises:
        NotFound: one is not in the trash, or not for this user.
        ActionRefused: another one in the trash was made of it, and could not be brought back any more.
    """
    going = _with_parts(_found(user, ids), together=False)
    _lock(going)
    readers = Job.objects.filter(inputs__artifact__made_by__in=going).exclude(pk__in=going).distinct().order_by("pk")
    if readers:
        raise ActionRefused(
            f"Still used by {names_of(list(readers), user)}.", hint="Remove those too; nothing was removed."
        )
    # Newest first: what was made of something goes before it.
    gone = {job_id for job in sorted(going, reverse=True) for job_id in remove_rows(going[job])}
    transaction.on_commit(partial(remove_files, sorted(gone)))
    log.info("removed jobs=%s by %s", sorted(going), user.username)
    return len(going)
