"""The page where a person brings images."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.addresses import id_of
from dashboard.forms.import_form import Earlier, ImportForm, earlier_import
from dashboard.visitor import SignedIn
from jobs.services import import_submit
from wire.errors import DiskFull, UserError

PREFILLED = ("upload", "path", "sample")
"""Fields that an address may fill."""


@require_http_methods(["GET", "POST"])
def new_dataset(request: SignedIn) -> HttpResponse:
    form = _form(request)
    if request.method == "POST" and (wish := form.request()):
        try:
            return redirect("dataset", import_submit(request.user, wish).pk)
        except (UserError, DiskFull) as error:
            form.refuse(error)
    status = 422 if request.method == "POST" else 200
    return render(request, "datasets/new/new.html", {"nav": "new_dataset", "form": form}, status=status)


@require_POST
def differences(request: SignedIn) -> HttpResponse:
    """In what the form differs from the import that it repeats."""
    return render(request, "datasets/new/differences.html", {"form": _form(request)})


def _form(request: SignedIn) -> ImportForm:
    if request.method == "POST":
        data = request.POST.dict()
        earlier = _earlier(request, data.get("again", ""))
        return ImportForm(request.user, way=data.get("from", ""), data=data, earlier=earlier)
    values = {name: request.GET[name] for name in PREFILLED if name in request.GET}
    earlier = _earlier(request, request.GET.get("again", ""))
    return ImportForm(request.user, way=request.GET.get("from", ""), earlier=earlier, values=values)


def _earlier(request: SignedIn, job_id: str) -> Earlier | None:
    again = id_of(job_id)
    return None if again is None else earlier_import(request.user, again)
