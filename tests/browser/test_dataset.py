"""The page of a dataset in Chromium: charts, filters, one picture in full, and names that are only ever text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from tests.browser.serving import prepared_server

pytestmark = pytest.mark.browser

SERVER = "from tests.browser.dataset_server import main; main()"


@dataclass(frozen=True)
class Served:
    address: str
    session: str
    plain: int
    odd: int


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prepared_server(SERVER, tmp_path_factory.mktemp("dataset")) as (address, made):
        yield Served(address, **made)


@pytest.fixture
def problems() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture(params=[(1440, 900)], ids=["1440px"])
def page(request: pytest.FixtureRequest, browser: Browser, served: Served, problems: list[str]) -> Iterator[Page]:
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.address}])
    opened = context.new_page()
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(f"uncaught {error}"))
    opened.on("dialog", lambda dialog: _refuse(dialog, problems))
    yield opened
    context.close()


def _refuse(dialog: Dialog, problems: list[str]) -> None:
    """Nothing here asks by ``alert``: whoever does came in with a name."""
    problems.append(f"dialog {dialog.message}")
    dialog.dismiss()


def visit(page: Page, served: Served, dataset: int, query: str = "") -> None:
    page.goto(f"{served.address}/datasets/{dataset}/{query}")
    expect(page.locator("[data-counts-plot] .main-svg").first).to_be_visible(timeout=30_000)


def shots(page: Page) -> list[int]:
    found: list[int] = page.locator("a[data-sample]").evaluate_all("all => all.map(each => +each.dataset.sample)")
    return found


def bars(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.locator("[data-counts-plot]").evaluate(
        "plot => plot.data.map(({name, x, y}) => ({name, x: [...x], y: [...y]}))"
    )
    return found


def test_what_is_drawn_is_what_was_counted(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.plain)
    assert bars(page) == [
        {"name": "training", "x": [81, 54], "y": [0, 1]},
        {"name": "validation", "x": [9, 6], "y": [0, 1]},
    ]
    page.locator("[data-counts-order]").select_option("smallest")
    page.wait_for_function("() => document.querySelector('[data-counts-plot]').data[0].x[0] === 54")
    page.locator("[data-counts-log]").click()
    page.wait_for_function("() => document.querySelector('[data-counts-plot]')._fullLayout.xaxis.type === 'log'")
    sizes = page.locator("[data-sizes-plot]").evaluate("plot => plot.data[0].x.length")
    assert sizes == 20, "150 widths in squares of 8 px"
    light = page.locator("[data-counts-plot]").evaluate("plot => plot.data[0].marker.color")
    for _ in range(2):
        page.locator("[data-theme-toggle]").click()
    page.wait_for_function(
        "old => document.querySelector('[data-counts-plot]').data[0].marker.color !== old", arg=light
    )
    assert problems == []


def test_filters_narrow_the_gallery_and_stay_in_the_address(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.plain)
    assert shots(page) == list(range(1, 61))
    page.get_by_label("Class", exact=True).select_option("1")
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 60 of 60")
    page.get_by_label("Split", exact=True).select_option("val")
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 6 of 6")
    page.get_by_label("Text in the file name").press_sequentially("dog/1")
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 6 of 6")
    page.wait_for_url(re.compile(r"\?split=val&class=1&q=dog%2F1$"))
    assert shots(page) == [100, 110, 120, 130, 140, 150]
    page.reload()
    assert shots(page) == [100, 110, 120, 130, 140, 150]
    expect(page.get_by_label("Text in the file name")).to_have_value("dog/1")
    page.get_by_role("link", name="Show all").click()
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 60 of 150")
    page.go_back()
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 6 of 6")
    expect(page.locator("[data-counts-plot] .main-svg").first).to_be_visible(timeout=30_000)
    assert problems == []


def test_pages_are_turned_with_the_keyboard(page: Page, served: Served) -> None:
    visit(page, served, served.plain)
    page.locator("#chevron-right-top").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#page-top")).to_have_value("2")
    expect(page.locator("#chevron-right-top")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".gallery-bar").first).to_contain_text("121 to 150 of 150")
    page.locator("#page-top").fill("1")
    page.keyboard.press("Enter")
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 60 of 150")


def test_a_bar_shows_its_pictures(page: Page, served: Served) -> None:
    visit(page, served, served.plain)
    page.locator("[data-counts-plot] .bars .point").nth(3).click(force=True)
    expect(page.locator(".gallery-bar").first).to_contain_text("1 to 6 of 6")
    expect(page.get_by_label("Split", exact=True)).to_have_value("val")
    expect(page.get_by_label("Class", exact=True)).to_have_value("1")


def test_arrow_keys_follow_the_filter_across_pages(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.plain, "?class=0")
    page.locator("[data-sample='60']").click()
    viewer = page.locator("#viewer")
    expect(viewer.locator("[data-view='place']")).to_have_text("60 of 90")
    expect(viewer.locator("[data-view='image']")).to_have_js_property("naturalWidth", 359)
    assert page.url.endswith("?class=0&image=60")
    page.keyboard.press("ArrowRight")
    expect(viewer.locator("[data-view='place']")).to_have_text("61 of 90")
    expect(viewer.locator("[data-view='name']")).to_have_text("cat/061.png")
    expect(viewer.locator("[data-view='size']")).to_have_text(re.compile("^360 . 200 px$"))
    page.keyboard.press("ArrowRight")
    expect(viewer.locator("[data-view='place']")).to_have_text("62 of 90")
    page.keyboard.press("ArrowLeft")
    expect(viewer.locator("[data-view='place']")).to_have_text("61 of 90")
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()
    expect(page.locator("[data-sample='61']")).to_be_focused()
    expect(page.locator("#page-top")).to_have_value("2")
    assert page.url.endswith("?class=0&page=2")
    assert problems == []


def test_a_link_opens_its_picture_and_the_ends_are_ends(page: Page, served: Served) -> None:
    visit(page, served, served.plain, "?image=150")
    viewer = page.locator("#viewer")
    expect(viewer.locator("[data-view='place']")).to_have_text("150 of 150")
    expect(viewer.locator("[data-view-step='next']")).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("ArrowRight")
    expect(viewer.locator("[data-view='place']")).to_have_text("150 of 150")
    link = viewer.locator("[data-view='link']").get_attribute("href")
    assert link == f"{served.address}/datasets/{served.plain}/?image=150"
    with page.expect_download() as download:
        viewer.get_by_text("Original").click()
    assert download.value.suggested_filename == "150.png"
    page.goto(f"{served.address}/datasets/{served.plain}/?image=151")
    expect(viewer.locator("[data-view='problem']")).to_contain_text("no image 151")


def test_names_run_nothing_and_are_shown_as_they_are(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.odd)
    ticks = page.locator("[data-counts-plot] .ytick text").all_text_contents()
    names = page.locator(".shot-line bdi").all_text_contents()
    assert names == ["<script>alert(1)</script>", 'it\'s "quoted"', "$(id)", "=1+1", "قطة 猫🐈"]
    assert ticks[0].startswith("<script>alert(1)</")
    assert ticks[1:] == names[1:]
    page.locator("[data-sample='1']").click()
    viewer = page.locator("#viewer")
    for name in names:
        expect(viewer.locator("[data-view='class']")).to_have_text(name)
        expect(viewer.locator("[data-view='name']")).to_have_text(f"{name}/<img src=x onerror=alert(1)>.png")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.locator("[data-warnings]")).to_contain_text("The class <script>alert(1)</script> is small.")
    page.goto(f"{served.address}/datasets/{served.odd}/report/")
    assert page.locator(".report-name").all_text_contents() == [f"{name}.txt" for name in names]
    page.get_by_label("Text in the file name").fill("script")
    expect(page.locator(".report-name")).to_have_count(1)
    page.wait_for_url(re.compile(r"/report/\?kind=&q=script$"))
    assert problems == []


@pytest.mark.parametrize("page", [(390, 844)], ids=["390px"], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page, served: Served) -> None:
    visit(page, served, served.plain)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("[data-sample='3']").click()
    expect(page.locator("[data-view='place']")).to_have_text("3 of 150")
    box = page.locator("#viewer").bounding_box()
    assert box
    assert (box["x"], box["width"]) == (0, 390)
    assert page.locator("[data-view-step='next']").bounding_box()["x"] < 390  # type: ignore[index]
