from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.supervise import supervise


class Command(BaseCommand):
    help = "Looks after one attempt until it ends. Started by dispatch; of no use by hand but to look what goes wrong."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("attempt", type=int, help="id of the attempt")

    def handle(self, *_args: Any, attempt: int, **_options: Any) -> None:
        supervise(attempt)
