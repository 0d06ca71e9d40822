"""What pages and the API read of evaluations and classifications: which there are, and what they found."""

from __future__ import annotations

from django.contrib.auth.models import User
from pydantic import ValidationError

from engine.store.predictions import PredictionsReader
from jobs.access import run_for, visible_jobs
from jobs.checkpoints import checkpoint_chosen
from jobs.lineage import dataset_trained_on, splits_present
from jobs.models import Job
from jobs.parts import files_gone, made_dir, part_for
from jobs.selectors import JobSummary, jobs_of
from jobs.states import ENDED, Status
from wire.errors import NotFound
from wire.evaluation import EvaluationReport
from wire.layout import PredictionsDir


def evaluations_of(user: User, run_id: int) -> list[JobSummary]:
    """Newest first."""
    return jobs_of(user, verb="evaluate", part_of=run_for(user, run_id).pk)


def classifications_of(user: User, run_id: int) -> list[JobSummary]:
    """Newest first."""
    return jobs_of(user, verb="classify", part_of=run_for(user, run_id).pk)


def evaluation_of(user: User, run_id: int, evaluation_id: int | None = None) -> Job | None:
    """The evaluation that was asked for, else the newest that succeeded, else the newest; None where there is none.

    Raises:
        NotFound: the run is not there, or has no such evaluation.
    """
    run = run_for(user, run_id)
    if evaluation_id is not None:
        evaluation = evaluation_for(user, evaluation_id)
        if evaluation.part_of_id != run.pk:
            raise NotFound(
                f"Evaluation #{evaluation_id} is not one of {run.title}.", hint="Choose one from the page of the run."
            )
        return evaluation
    mine = visible_jobs(user).filter(verb="evaluate", part_of=run).order_by("-pk")
    return mine.filter(status=Status.SUCCEEDED).first() or mine.first()


def evaluation_for(user: User, job_id: int) -> Job:
    """Raises ``NotFound`` where the user may not see it, or it is something else."""
    return part_for(user, job_id, "evaluate")


def classification_for(user: User, job_id: int) -> Job:
    """Raises ``NotFound`` where the user may not see it, or it is something else."""
    return part_for(user, job_id, "classify")


def why_not_evaluated(run: Job) -> str:
    """Why a training that has no evaluation got none by itself, as a sentence; empty where it should have one."""
    status = Status(run.status)
    if status not in ENDED:
        return "The evaluation begins by itself when the training has succeeded."
    if status is not Status.SUCCEEDED:
        return f"Only a training that succeeded is evaluated by itself; this one is {status}."
    if checkpoint_chosen(run) is None:
        return "There is nothing to evaluate: the run kept no checkpoint."
    dataset = dataset_trained_on(run)
    if dataset is None:
        return "There is nothing to evaluate it on: its dataset is not there any more."
    if not splits_present(dataset):
        return (
            "There is nothing to evaluate it on: the dataset has neither validation nor test images. "
            "Import it again with a validation share, or evaluate on another dataset."
        )
    return ""


def report_of(evaluation: Job) -> EvaluationReport:
    """What an evaluation found. Cost: the reading of one JSON file.

    Raises:
        ActionRefused: it has not succeeded, or not yet.
        NotFound: its files are gone, or cannot be read.
    """
    path = PredictionsDir(made_dir(evaluation)).report_path
    try:
        return EvaluationReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise files_gone(evaluation, "is gone") from None
    except (OSError, ValidationError):
        raise files_gone(evaluation, "cannot be read") from None


def predictions_reader(job: Job) -> PredictionsReader:
    """The single answers of an evaluation or a classification, to be closed after use.

    Raises:
        ActionRefused: it has not succeeded, or not yet.
        NotFound: its files are gone.
    """
    folder = made_dir(job)
    if not PredictionsDir(folder).predictions_path.is_file():
        raise files_gone(job, "is gone")
    return PredictionsReader(folder)
