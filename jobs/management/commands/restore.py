from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error

from jobs.restore import check_backup, restore
from jobs.storage import privately
from wire.errors import FoveaError


class Command(BaseCommand):
    help = "Make the database, and the files if the backup has them, what they were. Stop Fovea first."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--from", type=Path, required=True, dest="folder", help="the folder of the backup")
        parser.add_argument("--check", action="store_true", help="only see whether the backup is whole")
        parser.add_argument("--replace", action="store_true", help="put aside or copy what is there, then restore")

    def handle(self, *_args: Any, folder: Path, check: bool, replace: bool, **_options: Any) -> None:
        backup = folder.expanduser().resolve()
        try:
            if check:
                manifest = check_backup(backup)
                self.stdout.write(
                    f"Whole: {len(manifest.files):,} files of {manifest.made_at:%Y-%m-%d %H:%M} UTC, with"
                    f" {manifest.n_jobs:,} jobs; Fovea {manifest.fovea} on {manifest.database}"
                    f"{', with all files' if manifest.has_data else ', the database alone'}."
                )
                if manifest.unsettled:
                    self.stdout.write(f"Not everything is in it that jobs {_some(manifest.unsettled)} announced.")
                return
            with privately():
                restored = restore(backup, replace=replace, say=self.stderr.write)
        except FoveaError as problem:
            raise CommandError(f"{problem.message} {problem.hint}") from None
        except (Error, OSError) as problem:
            raise CommandError(
                f"The backup cannot be restored: {problem}. What was put aside lies beside itself, under a name with"
                " .before-restore- and the time."
            ) from None
        self.stdout.write(f"Restored {restored.n_jobs:,} jobs.")
        for path in restored.set_aside:
            self.stdout.write(f"What was there before is in {path}.")
        if restored.without_files:
            self.stdout.write(f"Without their files: jobs {_some(restored.without_files)}.")
        if restored.unknown_folders:
            self.stdout.write(f"Of jobs that the backup does not know: {_some(restored.unknown_folders)}.")


def _some(things: list[Any], *, shown: int = 10) -> str:
    names = ", ".join(map(str, things[:shown]))
    return names if len(things) <= shown else f"{names} and {len(things) - shown} more"
