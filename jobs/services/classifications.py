"""Many images put through the network of a run, as a job of its own."""

from __future__ import annotations

from pathlib import PurePosixPath

from django.contrib.auth.models import User

from engine.catalog import sample_cards
from jobs import transitions
from jobs.access import run_for
from jobs.checkpoints import checkpoint_of_run
from jobs.doorbell import ring_on_commit
from jobs.models import Job, JobInput
from jobs.requests import ClassificationRequest
from jobs.room import check_disk_room
from jobs.services.imports import resolve_source
from jobs.states import Status
from jobs.submissions import submitted_once
from wire.specs import ClassifySpec, FromFolder, FromLists, FromSample, FromUpload, Source

MOST_TITLE = 200


@submitted_once
def classification_submit(user: User, request: ClassificationRequest) -> Job:
    """Queue the classification of many images. It asks for no device, so it need not wait for trainings.

    Raises:
        NotFound: run or checkpoint are not there for this user.
        ActionRefused: the run goes on, or kept no checkpoint; a folder that is not offered, an upload not complete.
        SpecInvalid: no such sample, folder or file.
        UploadMissing: no such upload of this person.
        DiskFull: there would be no room for its answers.
    """
    check_disk_room(0, what="another classification")
    run = run_for(user, request.run)
    chosen = checkpoint_of_run(run, request.checkpoint)
    source = resolve_source(user, request.source)
    job = transitions.begin(
        status=Status.QUEUED,
        reason=f"submitted by {user.username}",
        verb="classify",
        spec=ClassifySpec(checkpoint=chosen.ref, source=source, top=request.top).model_dump(mode="json"),
        title=request.title.strip() or f"{_source_name(source)} classified by {run.title}"[:MOST_TITLE],
        # Of a run that only its owner sees an administrator makes nothing that the owner does not see.
        owner=run.owner if run.private else user,
        private=request.private or run.private,
        wants=[],
        part_of=run,
    )
    JobInput.objects.create(job=job, artifact=chosen.artifact, role="checkpoint")
    ring_on_commit()
    return job


def _source_name(source: Source) -> str:
    match source:
        case FromSample():
            return sample_cards()[source.name].label
        case FromFolder():
            return PurePosixPath(source.path).name or source.path
        case FromUpload():
            return source.name
        case FromLists():
            return "A list"
