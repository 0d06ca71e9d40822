from __future__ import annotations

from typing import Any

from channels.routing import URLRouter
from django.urls import path

from dashboard.consumers import Changes, JobEvents
from dashboard.identity import SameOrigin

socket_patterns = [
    path("ws/jobs/<int:job_id>/", JobEvents.as_asgi()),
    path("ws/changes/", Changes.as_asgi()),
]


def websocket_application() -> Any:
    return SameOrigin(URLRouter(socket_patterns))
