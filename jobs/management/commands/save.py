from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from jobs.leaving import save_what_runs_here


class Command(BaseCommand):
    help = (
        "Let what runs on this host save and end, and start nothing: before the machine is stopped. Stop the agent "
        "first; it goes on when the agent is started again."
    )

    def handle(self, **_options: Any) -> None:
        save_what_runs_here(self.stdout.write)
