"""What was deleted, until it is removed for good: brought back, or removed at once."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.timesince import timeuntil
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.addresses import id_of
from dashboard.visitor import SignedIn
from jobs.housekeeping import KEPT_IN_TRASH
from jobs.services import TrashedJob, jobs_remove, jobs_restore, trash_of
from wire.errors import ActionRefused, NotFound

KINDS = {
    "train": "Run",
    "import": "Dataset",
    "evaluate": "Evaluation",
    "classify": "Classification",
    "export": "Export",
}


@dataclass(frozen=True, slots=True)
class TrashRow:
    job: TrashedJob
    kind: str
    along: str
    """What comes back with it, in words."""
    goes_in: str


@dataclass(frozen=True, slots=True)
class TrashPage:
    """What ``templates/trash/trash.html`` is given."""

    rows: list[TrashRow]

    @property
    def total_bytes(self) -> int:
        return sum(row.job.disk_bytes for row in self.rows)

    @property
    def days(self) -> int:
        return KEPT_IN_TRASH.days


@require_GET
@never_cache
def trash(request: SignedIn) -> HttpResponse:
    page = TrashPage([_row(job) for job in trash_of(request.user)])
    return render(request, "trash/trash.html", {"nav": "trash", "page": page})


def _row(job: TrashedJob) -> TrashRow:
    words = []
    if job.n_parts:
        words.append("1 part" if job.n_parts == 1 else f"{job.n_parts} parts")
    words += [f"#{maker}" for maker in job.needs]
    kind = KINDS.get(job.verb, job.verb.capitalize())
    return TrashRow(job, kind, " and ".join(words), timeuntil(job.goes_at, depth=1))


@require_POST
def trash_restore(request: SignedIn) -> HttpResponse:
    try:
        n = jobs_restore(request.user, _ids(request.POST.getlist("ids")))
    except (ActionRefused, NotFound) as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, "It is back." if n == 1 else f"{n} entries are back.")
    return redirect("trash")


@require_http_methods(["GET", "POST"])
def trash_remove(request: SignedIn) -> HttpResponse:
    """Asks first; what stands in the way is said in the same place."""
    ids = _ids(request.POST.getlist("ids") or request.GET.getlist("ids"))
    refusal: ActionRefused | NotFound | None = None
    if request.method == "POST":
        try:
            n = jobs_remove(request.user, ids)
        except (ActionRefused, NotFound) as error:
            refusal = error
        else:
            messages.success(request, "It is removed." if n == 1 else f"{n} entries are removed.")
            if request.htmx:
                return HttpResponse(status=204, headers={"HX-Redirect": reverse("trash")})
            return redirect("trash")
    chosen = [job for job in trash_of(request.user) if job.id in ids]
    context: dict[str, object] = {
        "chosen": chosen,
        "total_bytes": sum(job.disk_bytes for job in chosen),
        "refusal": refusal,
        "template": "trash/remove.html",
    }
    return render(request, "trash/remove.html" if request.htmx else "partials/dialog_page.html", context)


def _ids(sent: list[str]) -> list[int]:
    return [job_id for job_id in map(id_of, sent) if job_id is not None]
