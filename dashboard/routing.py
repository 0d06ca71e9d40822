from __future__ import annotations

from typing import Any

from channels.routing import URLRouter
from django.urls import path

from dashboard.consumers import Changes, JobEvents
from dashboard.identity import SameOrigin

# Typed loosely: Django's stubs know views as routes only.
_job_events: Any = JobEvents.as_asgi()
_changes: Any = Changes.as_asgi()
socket_patterns: list[Any] = [path("ws/jobs/<int:job_id>/", _job_events), path("ws/changes/", _changes)]


def websocket_application() -> Any:
    return SameOrigin(URLRouter(socket_patterns))
