from __future__ import annotations

from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from dashboard.consumers import Changes, JobEvents
from dashboard.identity import SameOrigin

# Typed loosely: Django's stubs know views as routes only.
_job_events: Any = JobEvents.as_asgi()
_changes: Any = Changes.as_asgi()
socket_patterns: list[Any] = [path("ws/jobs/<int:job_id>/", _job_events), path("ws/changes/", _changes)]


_nothing_here: Any = WebsocketDenier.as_asgi()


def websocket_application() -> Any:
    # The router takes an address that it does not know for a fault of ours.
    return SameOrigin(URLRouter([*socket_patterns, re_path("", _nothing_here)]))
