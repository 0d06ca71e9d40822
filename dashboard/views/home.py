"""The tables of runs and datasets, and what can be done to their rows."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.addresses import id_of
from dashboard.visitor import SignedIn
from engine.catalog import sample_cards
from jobs.access import visible_jobs
from jobs.selectors import SORTS, JobSummary, datasets_of, runs_of
from jobs.states import ENDED, Status
from jobs.summaries import summaries_of
from wire.cards import SampleCard

STATUSES = [(status.value, status.value.capitalize()) for status in Status]
MAX_ROWS_A_REFRESH = 50


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table's columns; without a key it cannot be sorted by."""

    label: str
    key: str = ""
    css: str = ""
    sort: str = ""
    """``ascending`` or ``descending`` where the table is sorted by this column."""
    href: str = ""


RUN_COLUMNS = (
    Column("Status", "status"),
    Column("Run", "title"),
    Column("Progress", "progress"),
    Column("Best", "best", "num"),
    Column("Dataset", "dataset"),
    Column("Model", "model"),
    Column("Owner", "owner"),
    Column("Device", "device"),
    Column("Started", "started"),
    Column("Duration", "duration", "num"),
    Column("Size", "disk", "num"),
)
DATASET_COLUMNS = (
    Column("Status", "status"),
    Column("Dataset", "title"),
    Column("Progress", "progress"),
    Column("Images", css="num"),
    Column("Classes", css="num"),
    Column("Owner", "owner"),
    Column("Added", "created"),
    Column("Size", "disk", "num"),
)
DESCENDING_FIRST = frozenset({"progress", "best", "started", "duration", "disk", "created"})


@dataclass(frozen=True, slots=True)
class Listing:
    """One table with what the address says about its order and filter."""

    columns: list[Column]
    rows: list[JobSummary]


@dataclass(frozen=True, slots=True)
class HomePage:
    """What ``templates/home/home.html`` and ``lists.html`` are given."""

    nav: str
    title: str
    q: str
    status: str
    runs: Listing | None
    datasets: Listing
    samples: list[SampleCard]
    """Bundled datasets that can be brought in with one click."""
    ready: JobSummary | None
    """An imported dataset, offered while nothing has been trained yet."""
    importing: JobSummary | None
    order: list[tuple[str, str]]
    """The part of the address that sorts, for the filter's form to keep."""

    @property
    def filtered(self) -> bool:
        return bool(self.q or self.status)

    @property
    def statuses(self) -> list[tuple[str, str]]:
        return STATUSES


@require_GET
def home(request: SignedIn) -> HttpResponse:
    return _page(request, "home", "Runs")


@require_GET
def datasets(request: SignedIn) -> HttpResponse:
    return _page(request, "datasets", "Datasets")


def _page(request: SignedIn, nav: str, title: str) -> HttpResponse:
    query = request.GET
    q, status = query.get("q", "").strip(), query.get("status", "")
    sort, dataset_sort = query.get("sort", "-created"), query.get("dsort", "-created")
    runs = runs_of(request.user, q=q, status=status, sort=sort) if nav == "home" else None
    sets = datasets_of(request.user, q=q, status=status, sort=dataset_sort)
    page = HomePage(
        nav=nav,
        title=title,
        q=q,
        status=status,
        runs=None if runs is None else Listing(_columns(RUN_COLUMNS, query, "sort", sort), runs),
        datasets=Listing(_columns(DATASET_COLUMNS, query, "dsort", dataset_sort), sets),
        samples=_samples_to_import(request.user),
        ready=next((row for row in sets if row.status == Status.SUCCEEDED), None),
        importing=next((row for row in sets if row.status not in ENDED), None),
        order=[(name, query[name]) for name in ("sort", "dsort") if name in query],
    )
    template = "home/lists.html" if request.htmx else "home/home.html"
    return render(request, template, {"page": page, "nav": nav})


def _samples_to_import(user: User) -> list[SampleCard]:
    """Bundled datasets that are neither there nor on their way in."""
    imports = visible_jobs(user).filter(verb="import", spec__source__kind="sample")
    present = imports.exclude(status__in=ENDED - {Status.SUCCEEDED}).values_list("spec__source__name", flat=True)
    names = set(present)
    return [card for name, card in sample_cards().items() if name not in names]


@require_GET
def rows(request: SignedIn) -> HttpResponse:
    """Table rows of some jobs, to be put in place of those that the page shows; a job that is gone has none."""
    asked = map(id_of, request.GET.get("ids", "").split(","))
    ids = [job_id for job_id in asked if job_id is not None][:MAX_ROWS_A_REFRESH]
    summaries = summaries_of(visible_jobs(request.user).filter(pk__in=ids), request.user)
    return render(request, "home/rows.html", {"summaries": summaries})


def _columns(columns: tuple[Column, ...], query: QueryDict, parameter: str, sort: str) -> list[Column]:
    """The columns with the address that sorts by each, the other way round where the table already is."""
    descending = sort.startswith("-")
    made = []
    for column in columns:
        if column.key not in SORTS:
            made.append(column)
            continue
        current = sort.removeprefix("-") == column.key
        downward = not descending if current else column.key in DESCENDING_FIRST
        address = query.copy()
        address[parameter] = f"-{column.key}" if downward else column.key
        order = ("descending" if descending else "ascending") if current else ""
        made.append(Column(column.label, column.key, column.css, order, f"?{address.urlencode()}"))
    return made
