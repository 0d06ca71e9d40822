from __future__ import annotations

pytest_plugins = ["tests.require_all", "tests.faults.verdicts"]
