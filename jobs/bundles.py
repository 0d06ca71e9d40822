"""What of a run goes into a bundle: which exports may be handed out, and what is known of the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User
from pydantic import ValidationError

from engine.bundle.contents import Contents, Curve, Entry, Overridden, RunFacts, bundle
from engine.catalog import model_cards
from jobs.access import run_for, visible_jobs
from jobs.curves import CurvesSnapshot, curves_read
from jobs.evaluations import report_of
from jobs.exports import OverrideInfo, export_dir_of, export_for, export_report_of, export_row
from jobs.lineage import dataset_trained_on
from jobs.models import Job
from jobs.parts import files_gone
from jobs.states import Status
from jobs.storage import storage
from wire.cards import ModelCard, WeightsCard
from wire.errors import ActionRefused, FoveaError, NotFound
from wire.evaluation import EvaluationReport
from wire.exports import ExportedFile, ExportReport, Failed
from wire.layout import DatasetDir, ExportDir
from wire.manifests import DatasetManifest
from wire.specs import FromPublished, TrainSpec

CURVES: Final = ("train/loss", "val/loss", "val/top1")
MOST_POINTS: Final = 400
MOST_EXPORTS: Final = 32
"""Of one bundle: more than there are targets."""


def bundle_of(user: User, run_id: int, export_ids: Sequence[int]) -> Contents:
    """The bundle of these exports of a run, with all files where they should be.

    Cost: reads the reports, no models.

    Raises:
        NotFound: the run or an export is not there for this user, is not of this run, or its files are gone.
        ActionRefused: none is named, one may not be handed out, or they do not go together.
    """
    run = run_for(user, run_id)
    if not export_ids:
        raise ActionRefused(
            f"No export of {run.title} is chosen.", hint="Name the exports that shall go into the bundle."
        )
    if len(export_ids) > MOST_EXPORTS:
        raise ActionRefused(
            f"{len(export_ids)} exports are too many for one bundle.", hint=f"Choose up to {MOST_EXPORTS}."
        )
    jobs = [_export_of(user, run, export_id) for export_id in dict.fromkeys(export_ids)]
    entries = [_entry(job, user) for job in jobs]
    _refuse_a_mixture(entries)
    contents = bundle(entries, _facts(user, run, entries[0].report))
    contents.check()
    return contents


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an export, and where it lies."""

    folder: ExportDir
    file: ExportedFile


def exported_file(user: User, export_id: int, path: str) -> StoredFile:
    """One file that the report of an export names, for somebody who may have it.

    Raises:
        NotFound: the export is not there for this user, or has no such file.
        ActionRefused: it may not be handed out.
    """
    export = export_for(user, export_id)
    report = export_report_of(export)
    _refuse_if_failed(export, report, user)
    folder = _checked_folder(export, report)
    for file in report.files:
        if file.path == path:
            return StoredFile(folder, file)
    names = ", ".join(file.path for file in report.files if file.role != "golden")
    raise NotFound(f"{export.title} has no file {path[:100]!r}.", hint=f"It has: {names}.")


def _export_of(user: User, run: Job, export_id: int) -> Job:
    export = export_for(user, export_id)
    if export.part_of_id != run.pk:
        raise NotFound(f"Export #{export_id} is not one of {run.title}.", hint="Choose exports of one run.")
    return export


def _entry(export: Job, user: User) -> Entry:
    if export.status in {Status.FAILED, Status.ERRORED}:
        hint = export.error_hint or "Export it again from its run."
        raise ActionRefused(f"{export.title} has made nothing: {export.error_message or export.status}", hint=hint)
    report = export_report_of(export)
    override = _refuse_if_failed(export, report, user)
    folder = _checked_folder(export, report)
    if isinstance(report.verdict, Failed):
        assert override is not None  # noqa: S101 - it would have been refused
        return Entry(report, folder, Overridden(override.by, override.at, override.reason, report.verdict))
    return Entry(report, folder, report.verdict)


def _checked_folder(export: Job, report: ExportReport) -> ExportDir:
    """Where its files lie. Raises ``NotFound`` where one is a link, which could show anything of this machine."""
    folder = export_dir_of(export)
    root = folder.path.resolve()
    if any((root / file.path).resolve() != root / file.path for file in report.files):
        raise files_gone(export, "is a link to somewhere else")
    return folder


def _refuse_if_failed(export: Job, report: ExportReport, user: User) -> OverrideInfo | None:
    """The override of an export that failed; raises ``ActionRefused`` where it has none."""
    if not isinstance(report.verdict, Failed):
        return None
    override = export_row(export, user).override
    if override is None:
        raise ActionRefused(
            f"{export.title} failed its verification: {' '.join(report.verdict.reasons)}",
            hint="Leave it out, or override the verdict with a reason, which is then written into the bundle.",
        )
    return override


def _refuse_a_mixture(entries: Sequence[Entry]) -> None:
    names = [entry.name for entry in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ActionRefused(f"Two of the chosen exports are {twice}.", hint="Choose one of each target.")
    steps = {entry.report.checkpoint.sha256: entry.report.checkpoint.name for entry in entries}
    if len(steps) > 1:
        raise ActionRefused(
            f"The chosen exports are of different checkpoints: {', '.join(sorted(steps.values()))}.",
            hint="Make one bundle of each checkpoint.",
        )


def _facts(user: User, run: Job, report: ExportReport) -> RunFacts:
    recipe = TrainSpec.model_validate(run.spec)
    card = model_cards().get(recipe.model.name)
    snapshot = curves_read(run, names=CURVES, max_points=MOST_POINTS)
    return RunFacts(
        id=run.pk,
        title=run.title,
        recipe=recipe,
        model=card,
        began_with=_published(recipe, card),
        dataset=_manifest(user, run),
        evaluation=_evaluation(user, run, report),
        curves=_curves(snapshot),
        steps_per_epoch=max((attempt.steps_per_epoch for attempt in snapshot.attempts), default=0),
    )


def _published(recipe: TrainSpec, card: ModelCard | None) -> WeightsCard | None:
    if not isinstance(recipe.init, FromPublished) or card is None:
        return None
    return next((weights for weights in card.weights if weights.name == recipe.init.weights), None)


def _manifest(user: User, run: Job) -> DatasetManifest | None:
    """Of the dataset that it was trained on, where that is still there and the user may see it."""
    made = dataset_trained_on(run)
    if made is None or not visible_jobs(user).filter(pk=made.made_by_id).exists():
        return None
    path = DatasetDir(storage().job(made.made_by_id).resolve(made.path)).manifest_path
    try:
        return DatasetManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _evaluation(user: User, run: Job, report: ExportReport) -> EvaluationReport | None:
    """The newest of this checkpoint."""
    mine = visible_jobs(user).filter(verb="evaluate", part_of=run, status=Status.SUCCEEDED).order_by("-pk")
    for evaluation in mine:
        try:
            found = report_of(evaluation)
        except FoveaError:
            continue
        if found.checkpoint.sha256 == report.checkpoint.sha256:
            return found
    return None


def _curves(snapshot: CurvesSnapshot) -> tuple[Curve, ...]:
    return tuple(
        Curve(name, series.unit, tuple(zip(series.step, series.value, strict=True)))
        for name in CURVES
        if (series := snapshot.series.get(name)) is not None
    )
