"""The charts of a run in Chromium. Nothing is live here (no Redis), so the page also has to poll."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.browser.stack import PROJECT_DIR, free_port, wait_for
from tests.surroundings import shared_processes

pytestmark = pytest.mark.browser

N_STEPS = 400
GAPS = range(100, 110)
LOSS = "[data-panel='loss']"
SERVER = "from tests.browser.scripted_server import main; main()"


class ScriptedServer:
    """``scripted_server.py`` in a process of its own: Playwright's event loop in this one bars Django's database."""

    def __init__(self, data_dir: Path) -> None:
        self.address = f"http://127.0.0.1:{free_port()}"
        environment = {name: text for name, text in os.environ.items() if name not in {"REDIS_URL", "DATABASE_URL"}}
        port = self.address.rpartition(":")[2]
        own = {"DATA_DIR": str(data_dir), "PORT": port, "DJANGO_SETTINGS_MODULE": "config.settings"}
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "shell", "-v", "0", "-c", SERVER],
            cwd=PROJECT_DIR,
            env=environment | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.session = self._answer()
        wait_for("the server listens", lambda: self._listens(int(port)))

    def _listens(self, port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def ask(self, **wish: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(wish) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the server ended"
        return json.loads(line)

    def stop(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()


class ScriptedRun:
    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self.id: int = server.ask(do="run")

    def train(self, first: int, last: int) -> None:
        self._server.ask(do="train", job=self.id, first=first, last=last)

    def move(self, status: str) -> None:
        self._server.ask(do="status", job=self.id, status=status)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with shared_processes():
        running = ScriptedServer(tmp_path_factory.mktemp("charts"))
    yield running
    running.stop()


@pytest.fixture
def run(server: ScriptedServer) -> ScriptedRun:
    """Running, resumed at step 200, with a gap and a best checkpoint."""
    return ScriptedRun(server)


@pytest.fixture
def problems() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture(params=[(1440, 900)], ids=["1440px"])
def page(
    request: pytest.FixtureRequest, browser: Browser, server: ScriptedServer, run: ScriptedRun, problems: list[str]
) -> Iterator[Page]:
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    context.add_cookies([{"name": "sessionid", "value": server.session, "url": server.address}])
    opened = context.new_page()
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(f"uncaught {error}"))
    opened.goto(f"{server.address}/runs/{run.id}/")
    expect(opened.locator(f"{LOSS} .main-svg").first).to_be_visible(timeout=30_000)
    yield opened
    context.close()


def traces(page: Page, panel: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.locator(f"[data-panel='{panel}'] .chart-plot").evaluate(
        "plot => plot.data.map(({name, x, y, line, opacity}) => ({name, x: [...x], y: [...y], line, opacity}))"
    )
    return found


def shown_range(page: Page, panel: str) -> list[float]:
    found: list[float] = page.locator(f"[data-panel='{panel}'] .chart-plot").evaluate(
        "plot => [...plot._fullLayout.xaxis.range]"
    )
    return found


def drag(page: Page, panel: str, start: float, end: float) -> None:
    """Across a chart, from one share of its width to another."""
    stage = page.locator(f"[data-panel='{panel}'] .chart-stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (start + end) / 2 * box["width"], y + 1, steps=4)
    page.mouse.move(box["x"] + end * box["width"], y + 2, steps=4)
    page.mouse.up()


def test_what_is_drawn_is_what_was_recorded(page: Page, problems: list[str]) -> None:
    drawn = {trace["name"]: trace for trace in traces(page, "loss")}
    assert drawn["train"]["x"] == list(range(1, N_STEPS + 1)), "each step once, though thirty of them ran twice"
    assert [x for x, y in zip(drawn["train"]["x"], drawn["train"]["y"], strict=True) if y is None] == list(GAPS)
    assert drawn["validation"]["x"] == list(range(40, N_STEPS + 1, 40))
    assert drawn["validation"]["line"]["dash"] == "dash"
    assert drawn["best"]["x"] == [320]
    assert page.locator(f"{LOSS} .shapelayer path").count() == 1, "the line where the run was resumed"
    assert problems == []


def test_while_nothing_is_live_the_page_polls_and_says_so(page: Page, run: ScriptedRun) -> None:
    connection = page.locator("[data-connection]")
    expect(connection).to_have_attribute("data-connection", "polling", timeout=20_000)
    run.train(N_STEPS + 1, N_STEPS + 40)
    expect(page.locator("[data-number='step']")).to_have_text("440 / 1,000", timeout=20_000)
    page.wait_for_function("() => document.querySelector('.chart-plot').data[0].x.length === 440")
    assert page.title().startswith("44 % · ")
    run.move("cancelled")
    expect(connection).to_have_attribute("data-connection", "finished", timeout=20_000)
    expect(page.locator("[data-status]").first).to_have_text("Cancelled")


def test_pointing_at_one_chart_points_at_all(page: Page) -> None:
    box = page.locator(f"{LOSS} .chart-stage").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    for panel in ("loss", "accuracy"):
        expect(page.locator(f"[data-panel='{panel}'] .chart-cursor")).to_be_visible()
    moment = page.locator(f"{LOSS} .chart-moment").inner_text()
    step = int(moment.split(" · ")[0].removeprefix("step "))
    assert 150 < step < 250
    assert f"epoch {step / 40:.2f}" in moment
    expect(page.locator("[data-panel='accuracy'] .chart-value").first).to_have_text(f"{step / 5:.4g} %")
    page.mouse.move(0, 0)
    expect(page.locator(f"{LOSS} .chart-cursor")).to_be_hidden()
    expect(page.locator("[data-panel='accuracy'] .chart-value").first).to_have_text("80 %")


def test_arrow_keys_move_the_cursor(page: Page) -> None:
    page.locator(f"{LOSS} .chart-stage").focus()
    page.keyboard.press("ArrowLeft")
    first = page.locator(f"{LOSS} .chart-moment").inner_text()
    page.keyboard.press("Shift+ArrowLeft")
    assert page.locator(f"{LOSS} .chart-moment").inner_text() != first
    page.keyboard.press("Escape")
    expect(page.locator(f"{LOSS} .chart-cursor")).to_be_hidden()


def test_a_zoom_is_shared_and_outlasts_new_points(page: Page, run: ScriptedRun) -> None:
    before = shown_range(page, "loss")
    drag(page, "loss", 0.4, 0.6)
    reset = page.get_by_role("button", name="Reset zoom")
    expect(reset).to_be_visible()
    page.wait_for_function(
        "old => document.querySelector('.chart-plot')._fullLayout.xaxis.range[1] !== old", arg=before[1]
    )
    zoomed = shown_range(page, "loss")
    assert before[0] < zoomed[0] < zoomed[1] < before[1]
    page.wait_for_function(
        "wanted => document.querySelectorAll('.chart-plot')[1]._fullLayout.xaxis.range[1] === wanted", arg=zoomed[1]
    )
    run.train(N_STEPS + 1, N_STEPS + 40)
    expect(page.locator("[data-number='step']")).to_have_text("440 / 1,000", timeout=20_000)
    assert shown_range(page, "loss") == zoomed
    reset.click()
    page.wait_for_function("() => document.querySelector('.chart-plot')._fullLayout.xaxis.range[0] === 0")
    expect(reset).to_be_hidden()


def test_a_double_click_shows_everything_again(page: Page) -> None:
    drag(page, "loss", 0.4, 0.6)
    reset = page.get_by_role("button", name="Reset zoom")
    expect(reset).to_be_visible()
    page.locator(f"{LOSS} .nsewdrag").dblclick()
    expect(reset).to_be_hidden()


def test_smoothing_leaves_the_raw_line_faint_and_is_remembered(page: Page) -> None:
    page.locator("[data-smoothing]").fill("0.9")
    page.wait_for_function("() => document.querySelector('.chart-plot').data[0].opacity < 1")
    faint, smoothed = traces(page, "loss")[:2]
    assert faint["y"][50] != smoothed["y"][50]
    assert faint["x"] == smoothed["x"]
    page.reload()
    expect(page.locator("[data-smoothing-value]")).to_have_text("0.90")


def test_a_legend_entry_hides_its_line_and_shows_it_alone(page: Page) -> None:
    entry = page.locator(f"{LOSS} .chart-legend-item").first
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "false")
    page.wait_for_function("() => !document.querySelector('.chart-plot').data.some(({name}) => name === 'train')")
    entry.dblclick()
    page.wait_for_function("() => document.querySelector('.chart-plot').data.every(({name}) => name === 'train')")


def test_the_axis_can_be_epochs_time_and_logarithmic(page: Page) -> None:
    page.locator(".segments").get_by_text("Epoch").click()
    page.wait_for_function("() => document.querySelector('.chart-plot').data[0].x.at(-1) === 10")
    page.locator(".segments").get_by_text("Time").click()
    page.wait_for_function("() => document.querySelector('.xtitle').textContent.startsWith('time')")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.xtitle').textContent === 'epoch'")
    page.locator(f"{LOSS} .chart-toggle", has_text="log").click()
    page.wait_for_function("() => document.querySelector('.chart-plot')._fullLayout.yaxis.type === 'log'")


def test_a_picture_has_the_theme_and_names_are_text(page: Page, problems: list[str]) -> None:
    light = traces(page, "loss")[0]["line"]["color"]
    assert _ground(_picture(page)) > 240
    for _ in range(2):
        page.locator("[data-theme-toggle]").click()
    page.wait_for_function("old => document.querySelector('.chart-plot').data[0].line.color !== old", arg=light)
    assert _ground(_picture(page)) < 60
    assert page.locator(f"{LOSS} svg a").count() == 0
    expect(page.locator("h1")).to_have_text("<b>digits</b> & <a href='x'>more</a>")
    assert problems == []


def _picture(page: Page) -> Image.Image:
    page.locator(f"{LOSS} summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Picture (PNG)").first.click()
    return Image.open(io.BytesIO(download.value.path().read_bytes())).convert("L")


def _ground(picture: Image.Image) -> float:
    """Brightness of the lower left corner, 0 to 255."""
    return float(picture.crop((0, picture.height - 5, 5, picture.height)).resize((1, 1)).tobytes()[0])


@pytest.mark.parametrize("page", [(390, 844)], ids=["390px"], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    first, second = (page.locator(f"[data-panel='{panel}']").bounding_box() for panel in ("loss", "accuracy"))
    assert first
    assert second
    assert first["x"] == second["x"]
    assert second["y"] >= first["y"] + first["height"]
