"""The page of exports in Chromium: rows that move on by themselves, what is downloaded, who answers, narrow screens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.serving import prepared_server

pytestmark = pytest.mark.browser

SERVER = "from tests.browser.export_server import main; main()"


@dataclass(frozen=True)
class Served:
    address: str
    session: str
    table: dict[str, int]
    empty: int
    answered: int
    data_dir: Path

    def move(self, export: str, **wish: Any) -> None:
        """Let an export go on, as a supervisor does."""
        made = self.data_dir / "made.json"
        made.write_text(json.dumps({"job": self.table[export], **wish}))
        made.rename(self.data_dir / "wish.json")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data_dir = tmp_path_factory.mktemp("export")
    with prepared_server(SERVER, data_dir) as (address, made):
        yield Served(address, data_dir=data_dir, **made)


@pytest.fixture
def problems() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture
def page(browser: Browser, served: Served, problems: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.address}])
    opened = context.new_page()
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(f"uncaught {error}"))
    yield opened
    context.close()


def visit(page: Page, served: Served, run: int) -> None:
    page.goto(f"{served.address}/runs/{run}/export/")


def row(page: Page, served: Served, export: str) -> Any:
    return page.locator(f"#export-{served.table[export]}")


def place(page: Page, served: Served, export: str) -> list[float]:
    """Top and height of a row, wherever the page is scrolled to."""
    found: list[float] = row(page, served, export).evaluate(
        "each => [Math.round(each.getBoundingClientRect().top + scrollY), each.offsetHeight]"
    )
    return found


def sideways(page: Page) -> int:
    """By how many pixels the page or the table is wider than its place."""
    found: int = page.evaluate(
        "() => Math.max(document.documentElement.scrollWidth - innerWidth,"
        " ...[...document.querySelectorAll('.table-wrap')].map(each => each.scrollWidth - each.clientWidth))"
    )
    return found


def test_a_row_moves_on_by_itself_and_the_others_stay(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.table["run"])
    expect(row(page, served, "fp16")).to_contain_text("Verifying 40 %")
    row(page, served, "int8").locator(".export-details > summary").click()
    page.locator(f"#take-{served.table['pytorch']}").uncheck()
    expect(page.locator("[data-bundle-told]")).to_have_text("2 exports, 1.0 KiB")
    before = place(page, served, "int8")
    served.move("fp16", done=700)
    expect(row(page, served, "fp16")).to_contain_text("Verifying 70 %")
    page.locator(f"#export-cancel-{served.table['fp16']}").focus()
    served.move("fp16", done=800)
    expect(row(page, served, "fp16")).to_contain_text("Verifying 80 %")
    expect(page.locator(f"#export-cancel-{served.table['fp16']}")).to_be_focused()
    served.move("fp16", outcome="passed")
    expect(row(page, served, "fp16")).to_contain_text("91.10")
    expect(page.locator("#exports-live")).to_contain_text("ONNX FP16: Passed.")
    expect(page.locator("#exports-told")).to_contain_text("3 passed")
    assert place(page, served, "int8") == before, "nothing below has moved"
    assert row(page, served, "int8").locator(".export-details").get_attribute("open") is not None
    expect(page.locator(f"#take-{served.table['fp16']}")).to_be_checked()
    expect(page.locator(f"#take-{served.table['pytorch']}")).not_to_be_checked()
    expect(page.locator("[data-bundle-told]")).to_have_text("3 exports, 1.2 KiB")
    assert problems == []


def test_what_failed_is_handed_out_for_a_reason_and_taken_back(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.table["run"])
    box = page.locator(f"#take-{served.table['int8']}")
    expect(box).to_be_disabled()
    page.get_by_role("link", name=re.compile("Download anyway.*ONNX INT8")).click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.get_by_label("Reason").fill("<b>For the fair</b>")
    page.get_by_role("button", name="Hand it out").click()
    expect(row(page, served, "int8")).to_contain_text("Handed out all the same by ada")
    expect(row(page, served, "int8")).to_contain_text("<b>For the fair</b>")
    expect(box).to_be_enabled()
    expect(box).not_to_be_checked()
    page.get_by_role("button", name=re.compile("Take back.*ONNX INT8")).click()
    expect(box).to_be_disabled()
    assert problems == []


def test_options_stand_there_once_they_matter(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.empty)
    start = page.locator("[data-export-start]")
    calibration = page.get_by_label("Calibration images")
    expect(start).to_have_text("Export 4 targets")
    expect(calibration).to_be_visible()
    page.locator("[value='onnx:int8']").uncheck()
    expect(calibration).to_be_hidden()
    capability = page.get_by_label("8.9 (RTX 40")
    expect(capability).to_be_hidden()
    page.locator("[value='tensorrt_rtx:fp16']").check()
    expect(capability).to_be_checked()
    for target in ("pytorch:fp32", "onnx:fp32", "onnx:fp16"):
        page.locator(f"[value='{target}']").uncheck()
    expect(start).to_have_text("Export 1 target")
    for name in ("8.6", "8.9", "12.0"):
        page.locator(f".export-checks [value='{name}']").uncheck()
    start.click()
    expect(page.get_by_text("This field is required.")).to_be_visible()
    page.get_by_label("12.0 (RTX 50").check()
    start.click()
    expect(page.locator(".export-table")).to_contain_text("TensorRT for RTX")
    expect(page.get_by_text("1 export queued.")).to_be_visible()
    assert [text for text in problems if "422" not in text] == []


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (1280, "light"), (390, "light")])
def test_nothing_is_wider_than_the_screen(
    page: Page, served: Served, problems: list[str], artefacts_dir: Path, width: int, scheme: Any
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    visit(page, served, served.table["run"])
    page.locator(f"#export-{served.table['rtx32']} .export-details > summary").click()
    page.locator("[value='tensorrt_rtx:fp32']").check()
    page.screenshot(path=artefacts_dir / f"export-{width}-{scheme}.png", full_page=True)
    assert sideways(page) <= 0
    assert page.locator("h1 b").count() == 0, "names are only ever text"
    assert problems == []
