"""Whether the process is up, and whether what it needs is."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs import stream


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
    """503 without the database. Without Redis pages poll, so that alone is a 200 that says so."""
    database = _database_answers()
    body = {"ready": database, "database": database, "redis": stream.reachable()}
    return JsonResponse(body, status=200 if database else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True
