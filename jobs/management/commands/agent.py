from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.agent import Agent


class Command(BaseCommand):
    help = "Samples devices, starts queued jobs and adopts orphaned ones on this host, every two seconds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="do it once and end")

    def handle(self, *_args: Any, once: bool, **_options: Any) -> None:
        agent = Agent()
        if once:
            agent.turn()
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        agent.run()
