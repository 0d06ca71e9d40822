"""Whether the process is up, and whether what it needs is."""

from __future__ import annotations

import time
from dataclasses import asdict
from threading import Lock

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.identity import bearer_secret
from jobs.doctor import QUICK, Finding, Level, look
from jobs.services import token_find

NEEDED = {"database.answers": "database", "storage.writable": "storage"}
"""Without these no page can do its work. Each check, and what it is called in the answer."""


class _Recently:
    """What was found lately. Whoever asks often, or in crowds, costs no more than one look in that time."""

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._lock = Lock()
        self._looked_at_s: float | None = None
        self._findings: list[Finding] = []

    def findings(self) -> list[Finding]:
        with self._lock:
            if self._looked_at_s is None or time.monotonic() - self._looked_at_s >= self._fresh_s:
                self._findings = look(QUICK)
                self._looked_at_s = time.monotonic()
            return self._findings


_recently = _Recently(fresh_s=1.0)


@login_not_required
@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process answers, whatever else is broken: a restart would not mend that."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """503 without the database or the data folder. Without Redis pages poll: that is a 200 that says so.

    An administrator, by session or token, is told what was found.
    """
    findings = _recently.findings()
    needed = {label: _is_well(findings, name) for name, label in NEEDED.items()}
    ready = all(needed.values())
    body: dict[str, object] = {"ready": ready, **needed, "redis": _is_well(findings, "services.redis")}
    if needed["database"] and _is_administrator(request):
        body["findings"] = [asdict(finding) for finding in findings]
    return JsonResponse(body, status=200 if ready else 503)


def _is_well(findings: list[Finding], name: str) -> bool:
    """Redis that is away is a warning, and away all the same."""
    bad = {Level.PROBLEM, Level.WARNING} if name == "services.redis" else {Level.PROBLEM}
    return not any(finding.name == name and finding.level in bad for finding in findings)


def _is_administrator(request: HttpRequest) -> bool:
    if "Authorization" in request.headers:
        token = token_find(bearer_secret(request.headers["Authorization"]) or "")
        return token is not None and token.owner.is_staff
    return isinstance(request.user, User) and request.user.is_staff
