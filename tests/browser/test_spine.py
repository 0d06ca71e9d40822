"""The whole way, as a person goes it, with everything around the run breaking on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import drawn, import_sample, set_up, start_training, stored
from tests.browser.proxy import Proxy
from tests.browser.stack import Stack, truth, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

OFFLINE_S = 60
WEB_MEMORY_BYTES = 180 * 2**20
PATIENCE_MS = 400_000


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path / "data") as running:
        yield running


@pytest.fixture
def proxy(stack: Stack) -> Iterator[Proxy]:
    with Proxy(stack.port) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    yield opened
    context.close()


def test_nothing_is_missing_and_nothing_doubled(stack: Stack, proxy: Proxy, page: Page, artefacts_dir: Path) -> None:
    """A reload, an offline minute, a web restart, a Redis flush and a kill -9 of Celery's worker, all in one run."""
    problems = _watched(page)
    address = f"http://127.0.0.1:{proxy.port}"
    set_up(page, address, stack.setup_code)
    import_sample(page)
    job_id = start_training(page, epochs="400", log_every="6", model="resnet20")
    _wait_for_steps(stack, job_id, 20)

    page.reload()
    _expect_live(page)
    proxy.cut()
    expect(page.locator("[data-connection]")).not_to_have_attribute("data-connection", "live", timeout=30_000)
    before = len(stack.events(job_id))
    page.wait_for_timeout(OFFLINE_S * 1000)
    assert len(stack.events(job_id)) > before, "the run went on while nobody could watch it"
    proxy.mend()
    _expect_live(page)

    stack.kill_program("web")
    _expect_live(page)
    stack.flush_redis()
    stack.kill_program("worker")
    assert _status(stack, job_id) == "running", "the run must outlast all of this to say anything"
    _wait_for_steps(stack, job_id, truth(stack.events(job_id), "train/loss")[-1][0] + 20)
    # Ended by hand, so that the test takes as long on a slow machine as on a fast one.
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("[data-run-status]")).to_have_attribute("data-status", "cancelled", timeout=PATIENCE_MS)

    _assert_same_as_file(page, stack.events(job_id))
    page.screenshot(path=artefacts_dir / "run-ended.png")
    page.reload()
    expect(page.locator("[data-run-status]")).to_have_attribute("data-status", "cancelled")
    _assert_same_as_file(page, stack.events(job_id))
    assert [line for line in problems if "Content Security Policy" in line] == []
    assert [line for line in problems if line.startswith("uncaught")] == []


def test_a_killed_trainer_goes_on_as_if_nothing_had_happened(stack: Stack, page: Page) -> None:
    set_up(page, stack.address, stack.setup_code)
    import_sample(page)
    settings = {"epochs": "12", "checkpoint_every": "40", "log_every": "4"}
    killed = start_training(page, **settings)
    wait_for("a checkpoint", lambda: _kinds(stack, killed).count("artifact.made") >= 2)
    os.kill(stack.trainer_pid(killed), signal.SIGKILL)
    expect(page.locator("[data-run-status]")).to_have_attribute("data-status", "succeeded", timeout=PATIENCE_MS)
    assert _kinds(stack, killed).count("attempt.started") == 2
    _assert_same_as_file(page, stack.events(killed))

    page.get_by_role("link", name="Train again").click()
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(lambda url: url.endswith("/") and not url.endswith(f"/runs/{killed}/"))
    again = int(page.url.rstrip("/").rsplit("/", 1)[-1])
    expect(page.locator("[data-run-status]")).to_have_attribute("data-status", "succeeded", timeout=PATIENCE_MS)
    for series in ("train/loss", "train/top1", "val/loss", "val/top1", "lr"):
        unkilled = truth(stack.events(again), series)
        assert truth(stack.events(killed), series) == unkilled
        assert unkilled
    _assert_the_web_process_stays_small(stack, page, killed)


def _assert_the_web_process_stays_small(stack: Stack, page: Page, run: int) -> None:
    """After every page and every kind of answer of one web process."""
    pages = ("/", "/datasets/", "/datasets/1/", f"/runs/{run}/", f"/runs/new?again={run}", f"/runs/{run}/log/1")
    settings = ("/settings/account/", "/settings/tokens/", "/settings/users/", "/api/v1/docs")
    answers = ("jobs", "datasets", "devices", "catalog/models", f"jobs/{run}/events", f"jobs/{run}/curves")
    for path in (*pages, *settings, *(f"/api/v1/{answer}" for answer in answers)):
        response = page.goto(f"{stack.address}{path}")
        assert response, path
        assert response.ok, path
        page.wait_for_timeout(500)
    assert page.request.get(f"{stack.address}/api/v1/jobs/{run}/curves.csv").ok
    process = psutil.Process(stack.pid_of("web"))
    assert process.memory_info().rss < WEB_MEMORY_BYTES
    assert not [mapped.path for mapped in process.memory_maps() if "libtorch" in mapped.path]


def _watched(page: Page) -> list[str]:
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"uncaught {error}"))
    return problems


def _expect_live(page: Page) -> None:
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live", timeout=30_000)


def _kinds(stack: Stack, job_id: int) -> list[str]:
    return [envelope["event"]["kind"] for envelope in stack.events(job_id)]


def _status(stack: Stack, job_id: int) -> str:
    ended = [e["event"] for e in stack.events(job_id) if e["event"]["kind"] == "run.ended"]
    return ended[-1]["outcome"] if ended else "running"


def _wait_for_steps(stack: Stack, job_id: int, n_steps: int) -> None:
    wait_for(
        f"{n_steps} steps",
        lambda: any(step >= n_steps for step, _ in truth(stack.events(job_id), "train/loss")),
    )


def _assert_same_as_file(page: Page, events: list[dict[str, Any]]) -> None:
    """What the page holds is the file, point by point; what plotly draws is what the page holds."""
    names = {name for e in events if e["event"]["kind"] == "scalars" for name in e["event"]["values"]}
    page.wait_for_function("seq => window.fovea?.store.lastSeq >= seq", arg=events[-1]["seq"])
    held = stored(page)
    for name in sorted(names):
        expected = truth(events, name)
        assert len(expected) <= 1000, "a chart of more points is thinned: choose a larger log_every"
        assert [tuple(point) for point in held[name]] == expected, name
    lines = {line["name"]: line for line in drawn(page, "loss")}
    for label, series in (("train", "train/loss"), ("validation", "val/loss")):
        assert list(zip(lines[label]["x"], lines[label]["y"], strict=True)) == truth(events, series)
