from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs import suspension
from jobs.agent import Agent
from jobs.janitor import tidy_at_start
from jobs.leaving import save_what_runs_here


class Command(BaseCommand):
    help = "Samples devices, starts queued jobs and adopts orphaned ones on this host, every two seconds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="do it once and end")
        parser.add_argument(
            "--save",
            action="store_true",
            help="when it is stopped, let what runs on this host save and end first: for a container, which ends all "
            "of its processes with this one. It goes on at the next start",
        )

    def handle(self, *_args: Any, once: bool, save: bool, **_options: Any) -> None:
        agent = Agent()
        if once:
            agent.turn()
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        if save:
            suspension.lift(only_here=True)
        # What a crash left is taken over first; putting files in order may take seconds.
        agent.turn()
        tidy_at_start()
        agent.run()
        if save:
            save_what_runs_here(self.stdout.write)
