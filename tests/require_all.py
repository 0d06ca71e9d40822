"""What this machine lacks: named at the end of a run, and with ``REQUIRE_ALL=1`` a failure instead of a skip."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest


def _required() -> bool:
    return os.environ.get("REQUIRE_ALL") == "1"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _required() and report.skipped and not hasattr(report, "wasxfail"):
        report.longrepr = f"skipped while REQUIRE_ALL=1: {_reason(report)}"
        report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse(report)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    lacks = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if not lacks:
        return
    terminalreporter.section("left out on this machine")
    for reason, n_tests in lacks.most_common():
        terminalreporter.line(f"{n_tests} tests: {reason}")
