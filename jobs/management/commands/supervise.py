from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.supervise import supervise


class Command(BaseCommand):
    help = "Looks after one attempt until it ends. Started by dispatch; of no use by hand but to look what goes wrong."
    requires_system_checks = []

    nice = 2
    """People who look at pages go first: twenty supervisors on two cores would keep them waiting."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("attempt", type=int, help="id of the attempt")

    def handle(self, *_args: Any, attempt: int, **_options: Any) -> None:
        os.nice(self.nice)
        supervise(attempt)
