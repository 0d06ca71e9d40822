"""Which checkpoint of a run is used, and why that one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from jobs.access import run_for
from jobs.models import Artifact, Job
from jobs.states import ENDED, Status
from jobs.storage import storage
from wire.errors import ActionRefused, NotFound
from wire.specs import CheckpointRef


@dataclass(frozen=True, slots=True)
class Chosen:
    artifact: Artifact
    why: str
    """A sentence."""

    @property
    def ref(self) -> CheckpointRef:
        """How the spec of a job that uses it names it."""
        artifact, meta = self.artifact, self.artifact.meta
        return CheckpointRef(
            path=storage().input_path(artifact.made_by_id, artifact.path),
            sha256=artifact.sha256,
            name=artifact.name,
            step=_step(meta),
            epoch=float(meta.get("epoch") or 0.0),
            chosen=self.why,
        )


def checkpoint_chosen(run: Job) -> Chosen | None:
    """The best by what was measured on validation images, else the newest; None where the run kept none."""
    checkpoints = list(Artifact.objects.filter(made_by=run, kind="checkpoint", trashed_at=None))
    if not checkpoints:
        return None
    best = next((each for each in checkpoints if _is_best(run, each)), None)
    if best is not None:
        return Chosen(best, _why_best(run))
    return Chosen(max(checkpoints, key=_age), _why_newest(run))


def checkpoint_for(user: User, run_id: int, artifact_id: int | None = None) -> Artifact:
    """What to try images on: the one that was asked for, else the best, else the newest; while the run goes on too.

    Raises:
        NotFound: the run is not there for this user, or has no such checkpoint.
        ActionRefused: it has none, or none yet.
    """
    run = run_for(user, run_id)
    if artifact_id is not None:
        return _checkpoint_of(run, artifact_id)
    chosen = checkpoint_chosen(run)
    if chosen is None:
        hint = "Train again; the first is saved after one epoch."
        if Status(run.status) not in ENDED:
            hint = "Wait for it: the first is saved after one epoch."
        raise ActionRefused(f"{run.title} has no checkpoint to try.", hint=hint)
    return chosen.artifact


def checkpoint_of_run(run: Job, artifact_id: int | None = None) -> Chosen:
    """The one that was asked for, else the one that ``checkpoint_chosen`` gives.

    Raises:
        ActionRefused: the run goes on and may replace it while it is read, or it kept none.
        NotFound: the run has no such checkpoint.
    """
    if Status(run.status) not in ENDED:
        raise ActionRefused(
            f"{run.title} has not ended: it may still replace its checkpoints.",
            hint="Wait until it has ended, or cancel it.",
        )
    chosen = checkpoint_chosen(run)
    if chosen is None:
        raise ActionRefused(f"{run.title} kept no checkpoint.", hint="Train again; the first is saved after one epoch.")
    if artifact_id is None or artifact_id == chosen.artifact.pk:
        return chosen
    return Chosen(_checkpoint_of(run, artifact_id), "Chosen by hand")


def _checkpoint_of(run: Job, artifact_id: int) -> Artifact:
    wanted = Artifact.objects.filter(pk=artifact_id, made_by=run, kind="checkpoint", trashed_at=None).first()
    if wanted is None:
        raise NotFound(
            f"{run.title} has no checkpoint #{artifact_id}.", hint="Choose one from the list on the page of the run."
        )
    return wanted


def _is_best(run: Job, checkpoint: Artifact) -> bool:
    """A lowest loss on training images is no reason to prefer a checkpoint: it says how much was learnt by heart."""
    is_validated = run.best_step is not None and run.best_series.startswith("val/")
    return is_validated and checkpoint.name == f"step-{run.best_step}"


def _why_best(run: Job) -> str:
    value = run.best_value or 0.0
    score = f"{value:.4g}" if run.best_series.endswith("loss") else f"{value:.2f} %"
    return f"Best {run.best_series}, {score}"


def _why_newest(run: Job) -> str:
    if run.best_series.startswith("val/"):
        return "The last one: the best one is not there any more"
    if run.best_series:
        return "The last one: there were no validation images to choose by"
    return "The last one: none was measured on validation images"


def _age(checkpoint: Artifact) -> tuple[int, int, int]:
    """Orders those of one run, the newest last."""
    return _step(checkpoint.meta), int(checkpoint.meta.get("epochs_done") or 0), checkpoint.pk


def _step(meta: dict[str, Any]) -> int:
    return int(meta.get("step") or 0)
