from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config.settings import ENV
from config.start.invitation import Invitation


class Command(BaseCommand):
    help = (
        "Let other hosts join: writes join.json into DATA_DIR, with the addresses and passwords of the database and of"
        " Redis, readable by its owner alone, and prints what to run there. Remove the file to end it."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database-url", default="", help="the database as other hosts reach it")
        parser.add_argument("--redis-url", default="", help="Redis as other hosts reach it")

    def handle(self, *, database_url: str, redis_url: str, **_options: Any) -> None:
        invitation = Invitation(database_url=database_url or ENV.database_url, redis_url=redis_url or ENV.redis_url)
        if refusals := invitation.refusals():
            for refusal in refusals:
                self.stderr.write(f"No other host can join: {refusal}")
            sys.exit(2)
        path = invitation.write(ENV.data_dir)
        self.stdout.write(f"make worker JOIN={path}")
        self.stderr.write(
            f"Run that on the other host, as the same user, in a checkout of the same version. {ENV.data_dir} has to be"
            " mounted there; where it is another folder, name join.json as it is there."
        )
