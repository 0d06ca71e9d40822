from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.surroundings import shared_processes

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


# Not for the session: while it lives, playwright's event loop counts as running, and asynchronous tests fail.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium_path()
    if not path:
        pytest.skip("there is no Chromium (apt-get install chromium, or set CHROMIUM)")
    with ExitStack() as stack:
        with shared_processes():
            playwright = stack.enter_context(sync_playwright())
            found = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def artefacts_dir() -> Path:
    """Screenshots of the tested pages, to be looked at."""
    folder = Path(__file__).resolve().parents[2] / "test-results"
    folder.mkdir(exist_ok=True)
    return folder
