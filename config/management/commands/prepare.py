from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from config.settings import ENV
from config.start.places import Places
from config.start.preflight import StartError, check_folders
from config.start.prepare import prepare
from dashboard.accounts import setup_code, setup_needed


class Command(BaseCommand):
    help = (
        "Make database and static files ready for this version, as `up` does by itself. For services that somebody "
        "else starts: run it once before them, after each upgrade. Prints the set-up code while nobody has an account."
    )
    requires_system_checks: list[str] = []

    def handle(self, **_options: Any) -> None:
        places = Places(ENV.data_dir)
        try:
            check_folders(places, ENV.cache_dir)
            prepare(places, self.stdout.write)
        except StartError as problem:
            self.stderr.write(f"Fovea cannot be prepared: {problem}")
            sys.exit(2)
        if setup_needed():
            self.stdout.write(f"Set-up code    {setup_code()}")
