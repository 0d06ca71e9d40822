"""A server of prepared data for one module of tests, and what it tells of what it prepared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.stack import PROJECT_DIR, free_port, listens, wait_for
from tests.surroundings import shared_processes


@contextmanager
def prepared_server(script: str, data_dir: Path, **settings: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Its address, and the line of JSON that ``script`` prints once the data is there.

    ``settings`` go into its environment. In a process of its own: Playwright's event loop in this one bars
    Django's database.
    """
    port = free_port()
    kept = {name: text for name, text in os.environ.items() if name not in {"REDIS_URL", "DATABASE_URL"}}
    own = {"DATA_DIR": str(data_dir), "PORT": str(port), "DJANGO_SETTINGS_MODULE": "config.settings"}
    with shared_processes():
        process = subprocess.Popen(
            [sys.executable, "manage.py", "shell", "-v", "0", "-c", script],
            cwd=PROJECT_DIR,
            env=kept | own | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    assert process.stdin
    assert process.stdout
    line = process.stdout.readline()
    assert line, "the server ended"
    wait_for("the server listens", lambda: listens(port))
    yield f"http://127.0.0.1:{port}", json.loads(line)
    process.stdin.close()
    process.wait(timeout=20)
    process.stdout.close()
