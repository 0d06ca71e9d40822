"""The page of one training run.

The server renders everything that is text; ``static/js/run.js`` fetches the curves, follows the events and asks for the
regions again when one of them says something that they show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import FileResponse, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.attempt_rows import AttemptRow, attempt_rows
from dashboard.scores import EvaluationRow, told_first
from dashboard.views.actions import job_address
from dashboard.visitor import SignedIn
from engine.catalog import model_cards
from jobs.access import job_for
from jobs.diagnosis import Diagnosis, diagnose
from jobs.evaluations import evaluations_of
from jobs.logs import WholeLog
from jobs.models import Artifact, Attempt, Job
from jobs.planning import Start, plan_with_reasons
from jobs.selectors import (
    ArtifactInfo,
    JobSummary,
    NoticeInfo,
    TimelineEntry,
    artifacts_of,
    devices_list,
    job_summary,
    notices_of,
    timeline_of,
)
from jobs.states import ENDED, Status
from jobs.storage import storage
from wire.errors import NotFound
from wire.specs import FromCheckpoint, FromPublished, TrainOptions, TrainSpec

CHOSEN_BY_ZERO = frozenset({"log_every", "checkpoint_every"})
"""Options of which 0 means that the trainer chooses."""
OFF_BY_ZERO = frozenset({"ema_decay", "early_stopping_epochs"})
SHOWN = frozenset({"run.ended_early"})
"""Notices that stand at the top of the page though nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the facts panel; ``usual`` is the default where the run departs from it."""

    label: str
    text: str
    href: str = ""
    usual: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    id: int
    name: str
    step: int | None
    epoch: float | None
    metrics: list[tuple[str, float]]
    bytes: int
    best: bool
    evaluation: int | None
    """Id of the newest evaluation of it that succeeded."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """What the templates in ``templates/runs/`` are given."""

    run: JobSummary
    facts: list[Fact]
    options: list[Fact]
    timeline: list[TimelineEntry]
    notices: list[NoticeInfo]
    checkpoints: list[CheckpointRow]
    evaluation: EvaluationRow | None
    attempts: list[int]
    history: list[AttemptRow]
    keep_best: int
    diagnosis: Diagnosis | None
    """Of a run that went wrong."""
    command: str
    spec: str

    @property
    def data(self) -> dict[str, Any]:
        """The first answer to what the page will ask for again."""
        return self.run.model_dump(mode="json")

    @property
    def ended(self) -> bool:
        return Status(self.run.status) in ENDED

    @property
    def best_checkpoint(self) -> CheckpointRow | None:
        return next((row for row in self.checkpoints if row.best), None)

    @property
    def metric_names(self) -> list[str]:
        return sorted({name for row in self.checkpoints for name, _ in row.metrics})


@require_GET
@never_cache
def run(request: SignedIn, job_id: int) -> HttpResponse:
    job = job_for(request.user, job_id)
    if job.verb != "train":
        return redirect(job_address(job))
    return render(request, "runs/run.html", {"nav": "home", "page": _page(request, job)})


@require_GET
@never_cache
def run_regions(request: SignedIn, job_id: int) -> HttpResponse:
    """The parts of the page that change with the row or with a rare event, to be put in place of the old ones."""
    return render(request, "runs/regions.html", {"page": _page(request, job_for(request.user, job_id))})


@require_GET
@never_cache
def run_log(request: SignedIn, job_id: int, attempt: int) -> FileResponse:
    """The whole log of an attempt, as text, without what was left out of the middle of a long one."""
    job = job_for(request.user, job_id)
    path = storage().job(job.pk).attempt(attempt).log_path
    try:
        file = WholeLog(path)
    except FileNotFoundError:
        hint = "It begins when the process starts; look at the status on the page of the run."
        raise NotFound(f"Attempt {attempt} of {job.title} has no log.", hint=hint) from None
    return FileResponse(file, content_type="text/plain; charset=utf-8", filename=f"run-{job_id}-attempt-{attempt}.txt")


def _page(request: SignedIn, job: Job) -> RunPage:
    summary = job_summary(job, request.user)
    spec = TrainSpec.model_validate(job.spec)
    attempts = list(job.attempts.order_by("n"))
    notices = notices_of(job)
    checkpoints = [artifact for artifact in artifacts_of(job) if artifact.kind == "checkpoint"]
    evaluations = evaluations_of(request.user, job.pk)
    evaluated = {EvaluationRow.of_summary(row).checkpoint: row.id for row in reversed(evaluations)}
    return RunPage(
        run=summary,
        facts=_facts(summary, spec, attempts),
        options=_options(job, spec),
        timeline=timeline_of(job),
        notices=[notice for notice in notices if notice.level != "info" or notice.code in SHOWN],
        checkpoints=[_checkpoint_row(artifact, summary, evaluated) for artifact in checkpoints],
        evaluation=told_first(evaluations),
        attempts=[attempt.n for attempt in attempts],
        history=attempt_rows(attempts, notices),
        keep_best=spec.options.keep_best,
        diagnosis=diagnose(job),
        command=f"python -m engine train --dir {storage().job(job.pk).path}",
        spec=json.dumps(job.spec, indent=2, ensure_ascii=False),
    )


def _checkpoint_row(artifact: ArtifactInfo, run: JobSummary, evaluated: Mapping[str, int]) -> CheckpointRow:
    meta = artifact.meta
    metrics = [(name, value) for name, value in meta.get("metrics", {}).items() if isinstance(value, int | float)]
    step = meta.get("step")
    return CheckpointRow(
        id=artifact.id,
        name=artifact.name,
        step=step,
        epoch=meta.get("epoch"),
        metrics=metrics,
        bytes=artifact.bytes,
        best=run.best is not None and run.best.step == step,
        evaluation=evaluated.get(artifact.name),
    )


def _facts(run: JobSummary, spec: TrainSpec, attempts: list[Attempt]) -> list[Fact]:
    dataset_url = reverse("dataset", args=[run.dataset.id]) if run.dataset else ""
    facts = [
        Fact("Dataset", run.dataset.title if run.dataset else "deleted", dataset_url),
        Fact("Model", run.model_label or spec.model.name),
        _start_fact(spec),
        Fact("Device", ", ".join(run.devices) or {"auto": "first free"}.get(spec.device, spec.device)),
    ]
    if attempts:
        facts += [Fact("Host", attempts[-1].host), Fact("Attempts", str(len(attempts)))]
    if run.retry_of is not None:
        facts.append(Fact("Started again from", f"run #{run.retry_of}", reverse("run", args=[run.retry_of])))
    if run.private:
        facts.append(Fact("Visible to", f"{run.owner} and administrators"))
    return facts


def _start_fact(spec: TrainSpec) -> Fact:
    match spec.init:
        case FromPublished(weights=weights):
            return Fact("Starts from", f"published weights, {weights}")
        case FromCheckpoint(path=path):
            return Fact("Starts from", *_checkpoint_link(path))
        case _:
            return Fact("Starts from", "random weights")


def _checkpoint_link(path: str) -> tuple[str, str]:
    """Text and address of the run whose checkpoint ``../<id>/artifacts/...`` is."""
    _, job_id, inner = path.split("/", 2)
    artifact = Artifact.objects.filter(made_by=int(job_id), path=inner).first()
    name = artifact.name if artifact else inner.rsplit("/", 1)[-1]
    return f"{name} of run #{job_id}", reverse("run", args=[int(job_id)])


def _options(job: Job, spec: TrainSpec) -> list[Fact]:
    """Every option of the run by its label; what differs from the default carries the default."""
    usual = _usual_options(job, spec)
    facts = []
    for name, field in TrainOptions.model_fields.items():
        if name == "momentum" and spec.options.optimiser == "adamw":
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        value, default = getattr(spec.options, name), getattr(usual, name)
        text, default_text = (_option_text(name, each, extra) for each in (value, default))
        facts.append(Fact(field.title or name, text, usual="" if value == default else default_text))
    chosen = {**spec.model.options, **spec.task.options}
    return facts + [Fact(name.replace("_", " ").capitalize(), str(value)) for name, value in chosen.items()]


def _option_text(name: str, value: object, extra: dict[str, Any]) -> str:
    if name in CHOSEN_BY_ZERO and not value:
        return "Automatic"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if name in OFF_BY_ZERO and not value:
        return "Off"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    label = str(extra.get("labels", {}).get(text, text))
    return f"{label.partition(':')[0]} {extra.get('unit', '')}".strip()


def _usual_options(job: Job, spec: TrainSpec) -> TrainOptions:
    """What the form would have proposed for this dataset, model and start."""
    dataset = job.inputs.filter(role="dataset").select_related("artifact").first()
    card = model_cards().get(spec.model.name)
    if dataset is None or card is None:
        return TrainOptions()
    starts: dict[str, Start] = {"published": "published", "checkpoint": "checkpoint"}
    start = starts.get(spec.init.kind, "scratch")
    return plan_with_reasons(dataset.artifact.meta, card, devices_list(), start=start).options
