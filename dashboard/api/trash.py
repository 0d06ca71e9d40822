"""What was deleted, until it is removed for good."""

from __future__ import annotations

from ninja import Router, Schema

from dashboard.api.bodies import answers
from dashboard.api.jobs import JobIds
from dashboard.visitor import SignedIn
from jobs.services import TrashedJob, jobs_remove, jobs_restore, trash_of

router = Router()


class Restored(Schema):
    n_restored: int
    """With what came along: parts of a run, and what it was made of."""


class Removed(Schema):
    n_removed: int
    """With all that was made of them."""


@router.get("", response=answers(list[TrashedJob]), summary="The trash")
def trash_list(request: SignedIn) -> list[TrashedJob]:
    """What you may restore: your own, and what was made of your runs; administrators see all."""
    return trash_of(request.user)


@router.post("/restore", response=answers(Restored), summary="Restore several")
def trash_restore(request: SignedIn, chosen: JobIds) -> Restored:
    """All of them or none; what they were made of comes back with them where it lies in the trash, too."""
    return Restored(n_restored=jobs_restore(request.user, chosen.ids))


@router.post("/remove", response=answers(Removed), summary="Remove several for good")
def trash_remove(request: SignedIn, chosen: JobIds) -> Removed:
    """All of them or none, at once; refused, with names, where something else in the trash was made of one."""
    return Removed(n_removed=jobs_remove(request.user, chosen.ids))
