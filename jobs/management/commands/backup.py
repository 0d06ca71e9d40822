from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.backup import back_up, back_up_before_migrating
from jobs.storage import storage
from wire.errors import FoveaError


class Command(BaseCommand):
    help = "Copy the database, and with --with-data all files, while Fovea runs. Prints where the backup lies."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--to", type=Path, help="the folder to make it in; without it DATA_DIR/backups")
        parser.add_argument(
            "--with-data", action="store_true", help="copy datasets, checkpoints and all that jobs made, and uploads"
        )
        parser.add_argument(
            "--with-secret",
            action="store_true",
            help="copy secret.key, so that sessions and invitations stay valid; keep such a backup private",
        )
        parser.add_argument(
            "--before-migration",
            action="store_true",
            help="copy the database only if migrations are about to change it, and keep the last three such copies",
        )

    def handle(
        self,
        *_args: Any,
        to: Path | None,
        with_data: bool,
        with_secret: bool,
        before_migration: bool,
        **_options: Any,
    ) -> None:
        try:
            if before_migration:
                made = back_up_before_migrating(self.stderr.write)
                self.stdout.write(str(made) if made else "Nothing is about to change: no backup is needed.")
                return
            where = (to or storage().backups_dir).expanduser().resolve()
            made = back_up(where, with_data=with_data, with_secret=with_secret, say=self.stderr.write)
        except FoveaError as problem:
            raise CommandError(f"{problem.message} {problem.hint}") from None
        except OSError as problem:
            raise CommandError(f"The backup cannot be written: {problem}. Let --to name another folder.") from None
        self.stdout.write(str(made))
