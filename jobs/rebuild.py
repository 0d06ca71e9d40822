"""A database made anew from the files: every job, artifact, curve, event, transition, attempt and input.

Accounts keep their names alone: passwords and tokens are in no file. Rows get the ids that they had, so that addresses
of pages and of the API go on naming the same things.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from django.db import transaction
from django.db.models import Sum

from jobs.database import stay_in_transaction
from jobs.loose_ends import close_left_open
from jobs.models import Artifact, Attempt, Curve, ExportOverride, Job, JobInput, Transition, Upload
from jobs.record_rows import Found, People, RecordUnusable, error_columns, read_record, write_inputs, write_rows
from jobs.recorder import EventGap, replay
from jobs.row_ids import reserve_ids
from jobs.standstill import check_standstill
from jobs.storage import storage
from jobs.tail import Tail
from jobs.uploads import keep_until, uploads_named_by
from wire.errors import ActionRefused
from wire.layout import JobDir

SAY_EVERY = 50
"""Jobs between two words about how far it is."""

log = logging.getLogger(__name__)
Say = Callable[[str], object]


@dataclass(slots=True)
class Rebuilt:
    n_jobs: int = 0
    n_events: int = 0
    n_artifacts: int = 0
    n_points: int = 0
    people: list[str] = field(default_factory=list)
    """Names of accounts that were made because jobs are theirs; nobody can sign in with them yet."""
    skipped: list[str] = field(default_factory=list)
    """Folders that became no job, and why."""
    gaps: list[str] = field(default_factory=list)
    """What is not as it was of jobs that did."""


def rebuild(say: Say = log.info) -> Rebuilt:
    """Fill the empty database from ``DATA_DIR``: all of it or nothing. Users that are there are kept.

    Cost: every line of every job is read and written once.

    Raises:
        ActionRefused: the database has jobs, or something is at work on it.
    """
    if n_jobs := Job.objects.count():
        raise ActionRefused(
            f"The database has {n_jobs:,} jobs: only an empty one is rebuilt.",
            hint="Move it away first, or let DATABASE_URL name an empty one; --missing adds what it does not know.",
        )
    check_standstill()
    return _rebuilt(_Rebuild(say))


def bring_back_missing(say: Say = log.info) -> Rebuilt:
    """Add the jobs whose folders are there and whose rows are not: what a database lost that is older than the files.

    SQLite may lose the last moments with the power of the machine, and a backup is older than what came after it. No
    folder of a job that was deleted is looked at. Where nothing is missing this costs a look into ``DATA_DIR/jobs``.
    """
    return _rebuilt(_Rebuild(say, keeps_ids=False))


def _rebuilt(work: _Rebuild) -> Rebuilt:
    with transaction.atomic():
        stay_in_transaction()
        report = work.run()
    close_left_open(Job.objects.filter(pk__in=work.added))
    return report


def n_missing() -> int:
    """Folders of jobs that the database does not know."""
    folders = [job_id for job_id, _, in_trash in _job_folders() if not in_trash]
    # Asked after looking: a job has its row before its folder.
    return len(set(folders).difference(Job.objects.values_list("pk", flat=True)))


class _Rebuild:
    def __init__(self, say: Say, *, keeps_ids: bool = True) -> None:
        """``keeps_ids``: the database is empty, so that every row gets the id that it had."""
        self._say = say
        self._known: set[int] = set()
        self._keeps_ids = keeps_ids
        self.added: list[int] = []
        self._people = People()
        self._report = Rebuilt(people=self._people.made)

    def run(self) -> Rebuilt:
        folders = list(_job_folders())
        # Asked after looking: a job has its row before its folder.
        self._known.update(Job.objects.values_list("pk", flat=True))
        wanted = [each for each in folders if self._keeps_ids or (each[0] not in self._known and not each[2])]
        found = self._with_rows(wanted)
        # Not even of what was skipped: its folder is still there.
        reserve_ids(Job, max((job_id for job_id, _, _ in folders), default=0))
        if self._keeps_ids:
            for model in (Attempt, Transition, Artifact, ExportOverride):
                reserve_ids(model)
        for n, each in enumerate(found, 1):
            self._replay(each)
            if n % SAY_EVERY == 0:
                self._say(f"{n} of {len(found)} jobs, {self._report.n_events:,} events")
        for each in found:
            for missing in write_inputs(each, keep_ids=self._keeps_ids):
                self._report.gaps.append(f"job {each.id} read {missing}, which is not there any more")
            self._keep_uploads(each)
        if self._keeps_ids:
            reserve_ids(JobInput)
        self.added = [each.id for each in found]
        self._count(self.added)
        return self._report

    def _count(self, ids: Sequence[int]) -> None:
        self._report.n_jobs = len(ids)
        self._report.n_artifacts = Artifact.objects.filter(made_by__in=ids).count()
        points = Curve.objects.filter(series__job__in=ids).aggregate(n=Sum("count"))
        self._report.n_points = points["n"] or 0

    def _with_rows(self, folders: Sequence[tuple[int, JobDir, bool]]) -> list[Found]:
        found: list[Found] = []
        for job_id, folder, in_trash in folders:
            try:
                each = read_record(job_id, folder, in_trash=in_trash)
                write_rows(each, self._people, self._known, keep_ids=self._keeps_ids)
            except RecordUnusable as problem:
                self._report.skipped.append(f"{folder.path}: {problem}")
            else:
                found.append(each)
                self._known.add(job_id)
        return found

    def _replay(self, found: Found) -> None:
        tail = Tail(found.folder.events_path, after=0)
        try:
            while envelopes := tail.read():
                self._report.n_events += replay(found.id, envelopes)
        except EventGap as gap:
            self._report.gaps.append(f"{gap}; what came after is left out")
        if tail.damaged:
            self._report.gaps.append(f"job {found.id}: a line of its events cannot be read; what follows is left out")
        # The verdict's words are longer than the last event's.
        Job.objects.filter(pk=found.id).update(**error_columns(found))
        unannounced = Artifact.objects.filter(made_by=found.id, sha256="", kind="")
        for name in unannounced.values_list("name", flat=True):
            self._report.gaps.append(f"job {found.id}: no event that can be read announces {name}")
        unannounced.delete()

    def _keep_uploads(self, found: Found) -> None:
        """Uploads that a job names, so that it may still be read, or imported again."""
        job = Job.objects.select_related("owner").get(pk=found.id)
        for upload_id, name in uploads_named_by(job):
            path = storage().upload_path(upload_id)
            if not path.is_file() or Upload.objects.filter(pk=upload_id).exists():
                continue
            size = path.stat().st_size
            came_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            columns = {"size": size, "created_at": came_at, "completed_at": came_at, "expires_at": keep_until()}
            Upload.objects.create(id=upload_id, owner=job.owner, name=name, **columns)


def _job_folders() -> Iterator[tuple[int, JobDir, bool]]:
    """Id, folder, and whether it lies in the trash; in the order of ids, so that a run comes before its parts."""
    places = storage()
    by_id: dict[int, tuple[Path, bool]] = {}
    for parent, in_trash in ((places.trash_dir, True), (places.jobs_dir, False)):
        if parent.is_dir():
            by_id |= {int(path.name): (path, in_trash) for path in parent.iterdir() if path.name.isdecimal()}
    for job_id in sorted(by_id):
        path, in_trash = by_id[job_id]
        yield job_id, JobDir(path), in_trash
