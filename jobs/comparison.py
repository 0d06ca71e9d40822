"""Two of a run's exports and evaluations side by side: which can be, and what both answered about the same images."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from django.contrib.auth.models import User
from django.db.models import Prefetch, QuerySet

from engine.store.comparison import ComparisonReader
from jobs.access import run_for, visible_jobs
from jobs.exports import ExportRow, exports_of
from jobs.lineage import dataset_job_id
from jobs.models import Artifact, Job, JobInput
from jobs.states import Status
from jobs.storage import storage
from jobs.tried import OUTCOMES, export_name, is_made, why_not_tried
from wire.errors import ActionRefused, NotFound
from wire.layout import ExportDir, PredictionsDir
from wire.specs import CheckpointRef

SideKind: TypeAlias = Literal["evaluation", "export"]

_REFERENCE: Final = "pytorch"
"""The backend whose exports are the weights themselves."""
_KEY: Final = re.compile(r"(evaluation|export):([1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Side:
    """An export, or an evaluation, which stands for the checkpoint that it evaluated."""

    kind: SideKind
    job_id: int
    name: str
    """``ONNX INT8``, ``step-400``."""
    checkpoint: str
    is_reference: bool
    """PyTorch answered, with the weights as they were trained."""
    told: str
    """What it is among its like: the verdict of an export, the number of an evaluation."""
    dataset: int | None
    """The import that made the images it was asked about."""
    predictions_path: Path
    why_not: str
    """A sentence where it kept no single answers."""
    network: Artifact | None
    """What is asked about images that were not in the split; None where that cannot be."""
    why_not_tried: str
    """A sentence where ``network`` is None."""

    @property
    def key(self) -> str:
        """How addresses name it: ``evaluation:12``, ``export:34``."""
        return f"{self.kind}:{self.job_id}"

    @property
    def label(self) -> str:
        """In a list, where it has to differ from all others."""
        of = f" of {self.checkpoint}" if self.kind == "export" and self.checkpoint else ""
        return f"{self.name}{of}, {self.told}"


def sides_of(user: User, run_id: int) -> list[Side]:
    """Exports that have files, in the order of their targets, then evaluations, newest first.

    Cost: as many queries however many there are. Raises ``NotFound`` where the run is not there for this user.
    """
    run = run_for(user, run_id)
    return [*_exports(user, run), *_evaluations(visible_jobs(user).filter(part_of=run))]


def side_of(sides: Iterable[Side], key: str) -> Side:
    """The one that an address names; it may be one that cannot be compared.

    Raises:
        NotFound: the run has no such evaluation or export for this user, or ``key`` names neither.
    """
    sides = list(sides)
    found = next((side for side in sides if side.key == key), None)
    if found is not None:
        return found
    known = ", ".join(side.key for side in sides if not side.why_not)
    hint = f"Choose two of: {known}." if known else "Evaluate or export the run first."
    if not _KEY.fullmatch(key):
        raise NotFound(f"{key[:40]!r} names neither an evaluation nor an export.", hint=hint)
    raise NotFound(f"The run has no {key.replace(':', ' #')} to compare.", hint=hint)


def usual_sides(sides: Iterable[Side]) -> tuple[Side, Side] | None:
    """What is compared where nobody has chosen: the weights as they were trained, and what was made of them."""
    able = [side for side in sides if not side.why_not]
    trained = next((side for side in able if side.is_reference), able[0] if able else None)
    if trained is None:
        return None
    others = [side for side in able if side is not trained and side.dataset == trained.dataset]
    exported = [side for side in others if not side.is_reference]
    other = next(iter(exported or others), None)
    return None if other is None else (trained, other)


def compared(a: Side, b: Side) -> ComparisonReader:
    """Both, to be closed after use.

    Raises:
        ActionRefused: one of them kept no answers, or they are about different datasets.
        NotFound: the answers are gone.
    """
    for side in (a, b):
        if side.why_not:
            raise ActionRefused(side.why_not, hint="Choose another one.")
    if a.dataset != b.dataset:
        raise ActionRefused(
            f"{a.name} and {b.name} were asked about different datasets: #{a.dataset} and #{b.dataset}.",
            hint="Choose two of the same dataset, or evaluate the checkpoint on the other one too.",
        )
    return ComparisonReader(a.predictions_path, b.predictions_path)


def _exports(user: User, run: Job) -> list[Side]:
    rows = [row for row in exports_of(user, run.pk) if is_made(row)]
    made = Artifact.objects.filter(kind="export", trashed_at=None, made_by__in=[row.id for row in rows])
    artifacts = {artifact.made_by_id: artifact for artifact in made}
    return [_export(row, artifacts[row.id]) for row in rows if row.id in artifacts]


def _export(row: ExportRow, made: Artifact) -> Side:
    folder = ExportDir(storage().job(row.id).resolve(made.path))
    name, not_tried = export_name(row), why_not_tried(row)
    return Side(
        kind="export",
        job_id=row.id,
        name=name,
        checkpoint=row.checkpoint.name if row.checkpoint else "",
        is_reference=row.backend == _REFERENCE,
        told=OUTCOMES[row.outcome] + ("" if row.is_newest else f", an earlier one, #{row.id}"),
        dataset=None if row.dataset is None else row.dataset.id,
        predictions_path=folder.predictions_path,
        why_not=_why_no_answers(row, name, folder.predictions_path),
        network=None if not_tried else made,
        why_not_tried=f"{name} is {not_tried}." if not_tried else "",
    )


def _why_no_answers(row: ExportRow, name: str, path: Path) -> str:
    if row.outcome == "not_run":
        reason = f": {row.reasons[0]}" if row.reasons else ""
        return f"{name} was not run{reason}, so there are no answers to compare."
    if not path.is_file():
        return f"{name} (#{row.id}) has no answers about single images on the server's disk."
    return ""


def _evaluations(parts: QuerySet[Job]) -> list[Side]:
    found = parts.filter(verb="evaluate", status=Status.SUCCEEDED).order_by("-pk").prefetch_related(
        Prefetch("artifacts", Artifact.objects.filter(kind="report", trashed_at=None)),
        Prefetch("inputs", JobInput.objects.filter(role="checkpoint").select_related("artifact")),
    )  # fmt: skip
    return [_evaluation(job, made) for job in found for made in list(job.artifacts.all())[:1]]


def _evaluation(job: Job, made: Artifact) -> Side:
    path = PredictionsDir(storage().job(job.pk).resolve(made.path)).predictions_path
    used = next((each.artifact for each in job.inputs.all() if each.artifact.trashed_at is None), None)
    name = CheckpointRef.model_validate(job.spec["checkpoint"]).name
    gone = f"Evaluation #{job.pk} has no answers about single images on the server's disk."
    return Side(
        kind="evaluation",
        job_id=job.pk,
        name=name,
        checkpoint=name,
        is_reference=True,
        told=f"evaluation #{job.pk}",
        dataset=dataset_job_id(job.spec),
        predictions_path=path,
        why_not="" if path.is_file() else gone,
        network=used,
        why_not_tried="" if used else f"{name} was deleted, so it cannot be asked.",
    )
