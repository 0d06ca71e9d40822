from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from config.settings import ENV
from config.start.preflight import StartError
from config.start.up import AlreadyRunningError, Up, say


class Command(BaseCommand):
    help = "Start Fovea on this machine: Redis, worker, beat, agent and web server; Ctrl-C stops all of them."
    requires_system_checks: list[str] = []

    def handle(self, **_options: Any) -> None:
        try:
            Up(ENV).run()
        except AlreadyRunningError as other:
            say(f"Fovea runs already in {ENV.data_dir}" + (f", at {other}" if str(other) else "."))
        except StartError as problem:
            self.stderr.write(f"Fovea cannot start: {problem}")
            sys.exit(2)
