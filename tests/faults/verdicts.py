"""Collects what became of each fault into a JSON file (``--faults-json``), from which ``docs/faults.md`` is written."""

from __future__ import annotations

import inspect
import json
import os
import platform
import random
import secrets
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("celery", "channels", "Django", "kombu", "psycopg", "redis", "torch")
_PROPERTY = "fault"
_collected = pytest.StashKey[dict[str, dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--faults-json", metavar="FILE", help="write what became of each fault to this file")
    group.addoption("--faults-seed", type=int, default=secrets.randbelow(10**6), help="of the faults' random moments")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(number, title, how, inject): one fault of docs/faults.md")
    config.stash[_collected] = {}


def pytest_report_header(config: pytest.Config) -> str:
    return f"faults: --faults-seed={config.getoption('--faults-seed')}"


def pytest_configure_node(node: Any) -> None:
    """Processes of pytest-xdist draw the same seed."""
    node.workerinput["faults_seed"] = node.config.getoption("--faults-seed")


def seed_of(config: pytest.Config) -> int:
    given: dict[str, int] = getattr(config, "workerinput", {})
    return int(given.get("faults_seed", config.getoption("--faults-seed")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a skip, which counts as not passed."""
    for mark in item.iter_markers("fault"):
        number, title, how, inject = mark.args
        checked = inspect.getdoc(getattr(item, "function", None)) or item.name.removeprefix("test_").replace("_", " ")
        told = {"number": number, "title": title, "how": how, "inject": inject, "checked": " ".join(checked.split())}
        item.user_properties.append((_PROPERTY, told))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """The same moments for the same ``--faults-seed``."""
    return random.Random(f"{seed_of(request.config)} {request.node.nodeid}")  # noqa: S311 - moments, no secrets


class _Recorder:
    """Hears every report of the run, also those of other processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = self._config.stash[_collected]
        for name, told in report.user_properties:
            if name != _PROPERTY:
                continue
            assert isinstance(told, dict)
            row = rows.setdefault(f"{told['number']} {report.nodeid}", {**told, "test": report.nodeid, "seconds": 0.0})
            row["seconds"] = round(row["seconds"] + report.duration, 2)
            row["verdict"] = _worse(row.get("verdict", "passed"), report)


def _worse(before: str, report: pytest.TestReport) -> str:
    return before if report.outcome == "passed" else report.outcome


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Recorder(session.config), "faults-recorder")


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--faults-json")
    if path is None or hasattr(session.config, "workerinput"):
        return
    rows = sorted(session.config.stash[_collected].values(), key=lambda row: str(row["test"]))
    found = {"seed": seed_of(session.config), "versions": versions(), "rows": rows}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(found, indent=1) + "\n")


def versions() -> dict[str, str]:
    return {
        "Python": platform.python_version(),
        "Linux": platform.release(),
        "SQLite": sqlite3.sqlite_version,
        **{name: _version(name) for name in PACKAGES},
        "CPU": f"{len(os.sched_getaffinity(0))} cores",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
