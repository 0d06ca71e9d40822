"""The page of an evaluation in Chromium: the matrix and its cells, pictures with their answers, and names as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.serving import prepared_server

pytestmark = pytest.mark.browser

SERVER = "from tests.browser.evaluation_server import main; main()"


@dataclass(frozen=True)
class Served:
    address: str
    session: str
    few: int
    many: int


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prepared_server(SERVER, tmp_path_factory.mktemp("evaluation")) as (address, made):
        yield Served(address, **made)


@pytest.fixture
def problems() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture(params=[(1440, "light")], ids=["1440px"])
def page(request: pytest.FixtureRequest, browser: Browser, served: Served, problems: list[str]) -> Iterator[Page]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.address}])
    opened = context.new_page()
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(f"uncaught {error}"))
    opened.on("dialog", lambda dialog: dialog.dismiss())
    opened.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    yield opened
    context.close()


def visit(page: Page, served: Served, run: int, query: str = "") -> None:
    page.goto(f"{served.address}/runs/{run}/evaluation/{query}")
    expect(page.locator("[data-matrix-plot] .main-svg").first).to_be_visible(timeout=30_000)


def drawn(page: Page) -> Any:
    """The two heat maps: right answers, then wrong ones."""
    return page.locator("[data-matrix-plot]").evaluate("plot => plot.data.map(({z}) => z.map(row => [...row]))")


def place_of(page: Page, row: int, column: int) -> Any:
    """The middle of a cell as plotly has it, measured from the corner of what is pointed at."""
    return page.locator("[data-matrix-plot]").evaluate(
        """(plot, [row, column]) => {
            const { xaxis, yaxis } = plot._fullLayout;
            return { x: xaxis._offset + xaxis.l2p(column), y: yaxis._offset + yaxis.l2p(row) };
        }""",
        [row, column],
    )


def test_a_cell_of_the_matrix_opens_its_pictures(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.few)
    assert drawn(page) == [[[30, None, None], [None, 30, None], [None, None, 30]],
                           [[None, 10, None], [None, None, 10], [10, None, None]]]  # fmt: skip
    surface, cell = page.locator("[data-matrix-surface]"), place_of(page, 1, 2)
    surface.hover(position=cell)
    told = page.locator("[data-matrix-tip]")
    expect(told).to_have_text(re.compile(r"^10 of 40 images of cat were taken for =dog \(25\.0.%\)$"))
    surface.click(position=cell)
    bar = page.locator(".gallery-bar").first
    expect(bar).to_contain_text("cat taken for =dog, most wrong first: 1 to 10 of 10 validation images")
    page.wait_for_url(re.compile(r"\?job=\d+&split=val&label=1&predicted=2$"))
    expect(page.get_by_label("True class", exact=True)).to_have_value("1")
    expect(page.get_by_label("Answers", exact=True)).to_have_value("all")
    expect(page.locator("a[data-place] img").first).to_have_js_property("complete", value=True)
    page.reload()
    expect(bar).to_contain_text("1 to 10 of 10 validation images")
    assert problems == []


def test_the_scale_is_changed_and_follows_the_theme(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.few, "?split=test")
    page.get_by_text("Share of the row").click()
    page.wait_for_function("() => document.querySelector('[data-matrix-plot]').data[1].z[0][1] === 0.25")
    expect(page.locator("[data-matrix-most='wrong']")).to_have_text("25 %")
    light = page.locator("[data-matrix-plot]").evaluate("plot => plot.data[1].colorscale[1][1]")
    for _ in range(2):
        page.locator("[data-theme-toggle]").click()
    page.wait_for_function(
        "old => document.querySelector('[data-matrix-plot]').data[1].colorscale[1][1] !== old", arg=light
    )
    assert problems == []


def test_the_keyboard_reaches_every_cell(page: Page, served: Served) -> None:
    visit(page, served, served.few)
    page.locator("[data-matrix-surface]").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("[data-matrix-tip]")).to_contain_text("30 of 40 images of cat were recognised")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".gallery-bar").first).to_contain_text("cat taken for =dog")


def test_pairs_and_classes_open_the_same_pictures(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.few)
    page.locator(".pair-link", has_text="cat taken for =dog").click()
    bar = page.locator(".gallery-bar").first
    expect(bar).to_contain_text("cat taken for =dog, most wrong first: 1 to 10 of 10")
    page.locator("[data-classes] tr", has_text="cat").locator("a").nth(2).click()
    expect(bar).to_contain_text("Right answers for cat, most wrong first: 1 to 30 of 30")
    page.get_by_role("link", name="The most wrong").click()
    expect(bar).to_contain_text("Wrong answers, most wrong first: 1 to 30 of 30")
    assert problems == []


def test_a_picture_in_full_says_what_was_answered(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.few)
    page.locator("[data-place='0']").click()
    shown = page.locator("#answer")
    expect(shown.locator("[data-view='place']")).to_have_text("1 of 30")
    expect(shown.locator("[data-view='top'] li")).to_have_count(2)
    expect(shown.locator("[data-view='image']")).to_have_js_property("naturalHeight", 200)
    first = shown.locator("[data-view='name']").text_content()
    page.keyboard.press("ArrowRight")
    expect(shown.locator("[data-view='place']")).to_have_text("2 of 30")
    assert shown.locator("[data-view='name']").text_content() != first
    page.keyboard.press("Escape")
    expect(page.locator("[data-place='1']")).to_be_focused()
    assert problems == []


def test_sixty_classes_begin_with_the_most_confused(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.many)
    assert len(drawn(page)[0]) == 30
    page.locator("[data-matrix-which]").select_option("all")
    page.wait_for_function("() => document.querySelector('[data-matrix-plot]').data[0].z.length === 60")
    page.get_by_label("Text in the class name").fill("class 5")
    expect(page.locator("[data-classes-count]")).to_have_text("11 of 60")
    page.get_by_role("button", name="Class", exact=True).click()
    names = page.locator("[data-classes] tbody tr:not([hidden]) th").all_text_contents()
    assert names == ["class 5", *(f"class {number}" for number in range(50, 60))]
    page.get_by_label("Text in the class name").fill("nothing")
    expect(page.get_by_text("No class name holds this text.")).to_be_visible()
    assert problems == []


def test_names_run_nothing(page: Page, served: Served, problems: list[str]) -> None:
    visit(page, served, served.few)
    ticks = page.locator("[data-matrix-plot] .ytick text").all_text_contents()
    assert ticks == ["<script>alert(1)</s…", "cat", "=dog"]
    page.locator("[data-matrix-surface]").hover(position=place_of(page, 0, 1))
    expect(page.locator("[data-matrix-tip]")).to_contain_text("images of <script>alert(1)</script> were taken for cat")
    expect(page.locator("h1")).to_have_text("Run of 3 <i>classes</i>")
    assert problems == []


@pytest.mark.parametrize("page", [(390, "light"), (390, "dark"), (1440, "dark")], indirect=True)
def test_nothing_is_wider_than_the_screen(
    request: pytest.FixtureRequest, page: Page, served: Served, artefacts_dir: Path, problems: list[str]
) -> None:
    visit(page, served, served.many)
    assert page.viewport_size
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
    page.screenshot(path=artefacts_dir / f"evaluation-{width}-{scheme}.png", full_page=True)
    page.locator("[data-place='0']").click()
    expect(page.locator("#answer [data-view='place']")).to_have_text("1 of 30")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
