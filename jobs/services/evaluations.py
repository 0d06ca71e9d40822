"""Evaluations: one by itself after every training that succeeds, further ones when somebody asks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.contrib.auth.models import User

from jobs import transitions
from jobs.access import run_for
from jobs.checkpoints import Chosen, checkpoint_chosen, checkpoint_of_run
from jobs.doorbell import ring_on_commit
from jobs.lineage import EVALUATED_SPLITS, dataset_spec_path, dataset_trained_on, splits_present
from jobs.models import Artifact, Job, JobInput
from jobs.room import check_disk_room
from jobs.services.checks import check_classes, dataset_of_part
from jobs.states import Status
from jobs.submissions import submitted_once
from wire.errors import SpecInvalid
from wire.manifests import SplitName
from wire.specs import EvaluateSpec

AUTOMATIC_PRIORITY = 10
"""Whoever waits for a training waits for its evaluation too; it takes seconds where the next training takes hours."""
MOST_TITLE = 200

log = logging.getLogger(__name__)


def evaluation_submit_after(run: Job) -> Job | None:
    """Queue the evaluation of a training, in the transaction in which it succeeds.

    Returns:
        None where there is nothing to evaluate, or nothing to evaluate it on; ``why_not_evaluated`` says what is
        missing.
    """
    dataset = dataset_trained_on(run)
    chosen = checkpoint_chosen(run)
    if run.verb != "train" or dataset is None or chosen is None:
        return None
    splits = splits_present(dataset)
    if not splits:
        return None
    job = _begin(run, chosen, dataset, splits, owner=run.owner, priority=AUTOMATIC_PRIORITY)
    log.info("job=%s has succeeded: job=%s evaluates %s", run.pk, job.pk, chosen.artifact.name)
    return job


@submitted_once
def evaluation_submit(
    user: User,
    run_id: int,
    checkpoint: int | None = None,
    dataset: int | None = None,
    splits: Sequence[SplitName] | None = None,
) -> Job:
    """Queue the evaluation of a run that has ended, however it ended.

    Args:
        user: who asks.
        run_id: the run whose checkpoint is evaluated.
        checkpoint: id of one of its checkpoints; without it the best one, or the last.
        dataset: id of the import of another dataset than the run was trained on.
        splits: which of the dataset's splits; without it validation and test, as far as they are there.

    Raises:
        NotFound: run, checkpoint or dataset are not there for this user.
        ActionRefused: the run goes on, or kept no checkpoint.
        DatasetMissing: the dataset is gone, or was not imported.
        SpecInvalid: it has none of the splits, or no class that the run knows.
        DiskFull: there would be no room for its answers.
    """
    check_disk_room(0, what="another evaluation")
    run = run_for(user, run_id)
    chosen = checkpoint_of_run(run, checkpoint)
    images = dataset_of_part(user, run, dataset)
    check_classes(chosen.artifact, images)
    job = _begin(
        run,
        chosen,
        images,
        _checked_splits(images, splits),
        # Of a run that only its owner sees an administrator makes nothing that the owner does not see.
        owner=run.owner if run.private else user,
        reason=f"submitted by {user.username}",
    )
    ring_on_commit()
    return job


def _checked_splits(dataset: Artifact, wanted: Sequence[SplitName] | None) -> tuple[SplitName, ...]:
    asked = EVALUATED_SPLITS if wanted is None else tuple(dict.fromkeys(wanted))
    present = splits_present(dataset, asked)
    if not present or (wanted is not None and present != asked):
        missing = " or ".join(split for split in asked if split not in present) or "that was asked for"
        has = ", ".join(splits_present(dataset, ("train", "val", "test")))
        raise SpecInvalid(
            f"The dataset {dataset.made_by.title} has no images of the split {missing}.",
            hint=f"Choose of: {has}." if has else "Choose another dataset.",
        )
    return present


def _begin(
    run: Job,
    chosen: Chosen,
    dataset: Artifact,
    splits: tuple[SplitName, ...],
    *,
    owner: User,
    priority: int = 0,
    reason: str = "after the training",
) -> Job:
    spec = EvaluateSpec(
        checkpoint=chosen.ref,
        dataset=dataset_spec_path(dataset.made_by_id),
        splits=splits,
        device=run.spec.get("device", "auto"),
    )
    job = transitions.begin(
        status=Status.QUEUED,
        reason=reason,
        verb="evaluate",
        spec=spec.model_dump(mode="json"),
        title=f"Evaluation of {run.title}"[:MOST_TITLE],
        owner=owner,
        private=run.private or dataset.made_by.private,
        priority=priority,
        wants=run.wants,
        part_of=run,
    )
    JobInput.objects.create(job=job, artifact=chosen.artifact, role="checkpoint")
    JobInput.objects.create(job=job, artifact=dataset, role="dataset")
    return job
