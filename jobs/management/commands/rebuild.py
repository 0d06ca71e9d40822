from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error

from jobs.rebuild import bring_back_missing, rebuild
from jobs.storage import privately
from wire.errors import FoveaError


class Command(BaseCommand):
    help = "Fill an empty database from the files in DATA_DIR: every job, artifact and curve."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--missing", action="store_true", help="add the jobs that a database with other jobs does not know"
        )

    def handle(self, *_args: Any, missing: bool, **_options: Any) -> None:
        try:
            with privately():
                call_command("migrate", interactive=False, verbosity=0)
                report = bring_back_missing(self.stdout.write) if missing else rebuild(self.stdout.write)
        except FoveaError as refused:
            raise CommandError(f"{refused.message} {refused.hint}") from None
        except Error as problem:
            raise CommandError(
                f"The database cannot be used: {problem}. Move it away, or let DATABASE_URL name an empty one."
            ) from None
        self.stdout.write(
            f"Rebuilt {report.n_jobs:,} jobs, {report.n_artifacts:,} artifacts, {report.n_events:,} events and"
            f" {report.n_points:,} points of curves."
        )
        for line in report.gaps:
            self.stdout.write(f"Not as it was: {line}.")
        for line in report.skipped:
            self.stdout.write(f"Skipped {line}.")
        if report.people:
            self.stdout.write(
                f"Accounts without a password: {', '.join(sorted(report.people))}. An administrator reactivates them on"
                " the page Users and hands out a link for a new password."
            )
        self.stdout.write("Tokens of the API were only in the database that is gone: make new ones.")
