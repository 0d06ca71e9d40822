from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from jobs.doctor import ALL, Level, look

_SIGNS = {Level.OK: "ok", Level.WARNING: "WARNING", Level.PROBLEM: "PROBLEM"}


class Command(BaseCommand):
    help = "Look the whole installation over. Each line says what was found and what to do; ends with 1 on a problem."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="a list of findings, for programs")

    def handle(self, *_args: Any, as_json: bool, **_options: Any) -> None:
        findings = look(ALL)
        if as_json:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=1))
        else:
            for finding in findings:
                self.stdout.write(f"{_SIGNS[finding.level]:8} {finding.text}")
                if finding.step:
                    self.stdout.write(f"{'':8} -> {finding.step}")
        if any(finding.level is Level.PROBLEM for finding in findings):
            sys.exit(1)
