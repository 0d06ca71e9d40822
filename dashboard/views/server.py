"""How the installation is, for administrators: the same as ``manage.py doctor`` says."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.errors import NotPermitted
from dashboard.visitor import SignedIn
from jobs.doctor import ALL_BUT_SLOW, Finding, Level, look

AREAS = {
    "storage": "Storage",
    "database": "Database",
    "services": "Services",
    "devices": "Devices",
    "jobs": "Jobs",
    "versions": "Versions",
}
_WORST_FIRST = {Level.PROBLEM: 0, Level.WARNING: 1, Level.OK: 2}


@dataclass(frozen=True, slots=True)
class Area:
    name: str
    title: str
    findings: list[Finding]


@require_safe
@never_cache
def server(request: SignedIn) -> HttpResponse:
    if not request.user.is_staff:
        raise NotPermitted("Only administrators see how the server is.", hint="Ask one of them.")
    findings = look(ALL_BUT_SLOW)
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    context = {
        "nav": "server",
        "areas": [Area(name, title, _of_area(findings, name)) for name, title in AREAS.items()],
        "n_problems": counts[Level.PROBLEM],
        "n_warnings": counts[Level.WARNING],
        "looked_at": timezone.now(),
    }
    return render(request, "server/server.html", context)


def _of_area(findings: list[Finding], name: str) -> list[Finding]:
    return sorted((each for each in findings if each.area == name), key=lambda each: _WORST_FIRST[each.level])
