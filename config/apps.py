from __future__ import annotations

from django.apps import AppConfig


class FoveaConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        # Whoever sends a task from here on sends it with this app's settings.
        from config import celery as _current_by_being_imported  # noqa: F401
