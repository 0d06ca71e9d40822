"""How good a run is: its evaluations, and the pictures behind every number of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.evaluated_images import AnsweredImages, answered_images
from dashboard.gallery import SPLIT_LABELS
from dashboard.scores import EvaluationRow, SplitScores, split_scores, told_first
from dashboard.visitor import SignedIn
from jobs.access import run_for
from jobs.checkpoints import checkpoint_chosen
from jobs.evaluations import (
    evaluation_of,
    evaluations_of,
    predictions_reader,
    report_of,
    why_not_evaluated,
)
from jobs.lineage import EVALUATED_SPLITS, dataset_trained_on, splits_present
from jobs.models import Artifact, Job
from jobs.selectors import ArtifactInfo, JobSummary, artifacts_of, datasets_of, job_summary
from jobs.services import evaluation_submit
from jobs.states import ENDED, Status
from wire.errors import FoveaError, NotFound
from wire.evaluation import EvaluationReport
from wire.manifests import SplitName

MOST_EARLIER: Final = 50


@dataclass(frozen=True, slots=True)
class Findings:
    """What is read from the files of an evaluation; where they cannot be, why."""

    report: EvaluationReport | None = None
    splits: list[tuple[SplitName, str]] = field(default_factory=list)
    scores: SplitScores | None = None
    images: AnsweredImages | None = None
    problem: FoveaError | None = None


@dataclass(frozen=True, slots=True)
class EvaluationPage:
    """What the templates in ``templates/evaluation/`` are given."""

    run: JobSummary
    shown: EvaluationRow | None
    """None where the run has none yet."""
    findings: Findings
    evaluations: list[EvaluationRow]
    why_not: str

    @property
    def row(self) -> JobSummary | None:
        return None if self.shown is None else self.shown.summary

    @property
    def run_ended(self) -> bool:
        return Status(self.run.status) in ENDED

    @property
    def waits(self) -> bool:
        """Something is to come, so that the page asks again."""
        return not self.run_ended if self.row is None else Status(self.row.status) not in ENDED

    @property
    def unfinished(self) -> bool:
        return self.row is not None and self.row.status in ENDED - {Status.SUCCEEDED}

    @property
    def other_running(self) -> JobSummary | None:
        """A newer one that is under way while an earlier one is shown."""
        rows = (each.summary for each in self.evaluations)
        return next((row for row in rows if row.ended_at is None and row != self.row), None)


@require_GET
@never_cache
def evaluation(request: SignedIn, job_id: int) -> HttpResponse:
    run = run_for(request.user, job_id)
    job = evaluation_of(request.user, job_id, _number(request.GET, "job"))
    piece = request.htmx and not request.htmx.history_restore_request
    summary = None if job is None else job_summary(job, request.user)
    page = EvaluationPage(
        run=job_summary(run, request.user),
        shown=None if summary is None else EvaluationRow.of_summary(summary),
        findings=Findings() if piece or job is None else _findings(request, job),
        evaluations=[EvaluationRow.of_summary(row) for row in evaluations_of(request.user, job_id)[:MOST_EARLIER]],
        why_not="" if job else why_not_evaluated(run),
    )
    # The piece is asked for while there is no evaluation yet, or while the one that the address names is under way.
    goes_on = page.waits and (job is None) == ("job" not in request.GET)
    if piece and not goes_on:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "evaluation/state.html" if piece else "evaluation/evaluation.html", _context(page))


@require_GET
@never_cache
def evaluation_images(request: SignedIn, job_id: int) -> HttpResponse:
    """One page of pictures, for the page of the evaluation to put in place."""
    run_for(request.user, job_id)
    page_url = reverse("evaluation", args=[job_id])
    if not request.htmx:
        return redirect(f"{page_url}?{request.GET.urlencode()}")
    job = evaluation_of(request.user, job_id, _number(request.GET, "job"))
    if job is None:
        raise NotFound("This run has no evaluation.", hint="Start one from its page.")
    images = _images(request, job, _first_split(job))
    response = render(request, "evaluation/images.html", {"images": images})
    # What a person may reload or pass on is the whole page, not this piece of it.
    response.headers["HX-Push-Url"] = f"{page_url}?{images.page_query}"
    return response


@require_GET
@never_cache
def evaluation_summary(request: SignedIn, job_id: int) -> HttpResponse:
    """The card on the page of the run, while its evaluation is under way."""
    told = told_first(evaluations_of(request.user, job_id))
    return render(request, "evaluation/summary.html", {"run_id": job_id, "told": told})


@require_http_methods(["GET", "POST"])
def evaluation_start(request: SignedIn, job_id: int) -> HttpResponse:
    """Asks which checkpoint and which images, then queues it; what stands in the way is said in the same place."""
    run = run_for(request.user, job_id)
    asked = request.POST if request.method == "POST" else request.GET
    problem: FoveaError | None = None
    if request.method == "POST":
        try:
            job = _submit(request, run, asked)
        except FoveaError as error:
            problem = error
        else:
            address = f"{reverse('evaluation', args=[job_id])}?job={job.pk}"
            if request.htmx:
                return HttpResponse(status=204, headers={"HX-Redirect": address})
            return HttpResponseRedirect(address)
    context = {"job": run, "problem": problem, **_choices(request, run, asked)}
    template = "evaluation/start.html"
    return render(request, template if request.htmx else "partials/dialog_page.html", context | {"template": template})


def _context(page: EvaluationPage) -> dict[str, object]:
    return {"nav": "home", "page": page, "run": page.run, "row": page.row}


def _number(query: QueryDict, name: str) -> int | None:
    """Of a job or an artifact.

    Raises:
        NotFound: it is no number.
    """
    typed = query.get(name, "")
    if not typed:
        return None
    if typed.isdecimal() and len(typed) < 18:
        return int(typed)
    raise NotFound(f"There is no {name} {typed[:40]!r}.", hint="Choose one from the page of the run.")


def _findings(request: SignedIn, job: Job) -> Findings:
    if job.status != Status.SUCCEEDED:
        return Findings()
    try:
        report = report_of(job)
        images = _images(request, job, report.splits[0].split)
    except FoveaError as problem:
        return Findings(problem=problem)
    found = next((each for each in report.splits if each.split == images.shown.split), None)
    if found is None:
        raise NotFound(
            f"{job.title} (#{job.pk}) has no numbers of the {images.split_label} images.",
            hint=f"It has: {', '.join(each.split for each in report.splits)}.",
        )
    return Findings(
        report=report,
        splits=[(each.split, SPLIT_LABELS[each.split]) for each in report.splits],
        scores=split_scores(report, found),
        images=images,
    )


def _images(request: SignedIn, job: Job, split: SplitName) -> AnsweredImages:
    with predictions_reader(job) as reader:
        return answered_images(request.user, job, reader, request.GET, split)


def _first_split(job: Job) -> SplitName:
    splits: Sequence[SplitName] = [split for split in get_args(SplitName) if split in job.spec.get("splits", ())]
    return next(iter([split for split in splits if split in EVALUATED_SPLITS] or splits), "val")


def _submit(request: SignedIn, run: Job, asked: QueryDict) -> Job:
    wanted = [split for split in get_args(SplitName) if split in asked.getlist("splits")]
    dataset = _number(asked, "dataset")
    made = _dataset_artifact(run, dataset)
    # As far as they are there; where none is, the service says so.
    splits = (splits_present(made, wanted) if made else ()) or tuple(wanted)
    return evaluation_submit(request.user, run.pk, _number(asked, "checkpoint"), dataset, splits)


def _dataset_artifact(run: Job, import_id: int | None) -> Artifact | None:
    if import_id is None:
        return dataset_trained_on(run)
    return Artifact.objects.filter(made_by=import_id, kind="dataset", trashed_at=None).first()


def _choices(request: SignedIn, run: Job, asked: QueryDict) -> dict[str, object]:
    checkpoints = [each for each in artifacts_of(run) if each.kind == "checkpoint"]
    chosen = checkpoint_chosen(run)
    trained_on = dataset_trained_on(run)
    own = trained_on.made_by_id if trained_on else None
    ticked = asked.getlist("splits") if request.method == "POST" else EVALUATED_SPLITS
    return {
        "checkpoints": checkpoints,
        "checkpoint": _number(asked, "checkpoint") or (chosen.artifact.pk if chosen else None),
        "chosen": chosen,
        "datasets": _datasets(request, checkpoints, own),
        "dataset": _number(asked, "dataset") or own,
        "own_dataset": own,
        "splits": [(name, SPLIT_LABELS[name], name in ticked) for name in ("val", "test", "train")],
    }


def _datasets(request: SignedIn, checkpoints: Sequence[ArtifactInfo], own: int | None) -> list[JobSummary]:
    """Those with a class that the run knows, its own first."""
    known = set(checkpoints[0].meta.get("classes", ())) if checkpoints else set()
    rows = [row for row in datasets_of(request.user, status=Status.SUCCEEDED) if row.dataset_meta]
    fitting = [row for row in rows if row.id == own or known & set((row.dataset_meta or {}).get("classes", ()))]
    return sorted(fitting, key=lambda row: row.id != own)
