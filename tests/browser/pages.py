"""What a person does on the pages, and what plotly drew there."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

PASSWORD = "fovea-centralis-17"  # noqa: S105 - of an account that lives for one test


def set_up(page: Page, address: str, code: str) -> None:
    """First visit: the administrator's account."""
    page.goto(f"{address}/")
    page.get_by_label("Set-up code").fill(code)
    page.get_by_label("Name", exact=True).fill("ada")
    for field in page.locator("input[type=password]").all():
        field.fill(PASSWORD)
    page.get_by_role("button", name="Make the account").click()
    page.wait_for_url(f"{address}/")


def import_sample(page: Page) -> None:
    """One click on the empty home page; the page itself says when the dataset is ready."""
    page.get_by_role("button", name="Import the sample").click()
    expect(page.get_by_role("button", name="Train on it")).to_be_visible(timeout=60_000)


def start_training(page: Page, **fields: str) -> int:
    """By the form, with some fields changed. Returns the run's number."""
    page.get_by_role("link", name="Choose the settings").click()
    model = fields.pop("model", None)
    if model:
        before = page.locator("[name=options-epochs]").element_handle()
        page.locator(f"#model-{model}").check(force=True)
        before.wait_for_element_state("hidden")  # the fields were replaced by those for this model
    for name, value in fields.items():
        field = page.locator(f"[name=options-{name}]")
        if not field.is_visible():
            field.locator("xpath=ancestor::details").locator("summary").click()
        field.fill(value)
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    found = re.search(r"/runs/(\d+)/", page.url)
    assert found
    return int(found.group(1))


def stored(page: Page) -> dict[str, list[list[float | None]]]:
    """(step, value) of every series that the page holds."""
    answer: dict[str, list[list[float | None]]] = page.evaluate(
        "() => Object.fromEntries([...window.fovea.store.series]"
        ".map(([name, series]) => [name, series.step.map((step, index) => [step, series.value[index]])]))"
    )
    return answer


def drawn(page: Page, panel: str) -> list[dict[str, Any]]:
    """Name, x and y of every trace that plotly shows in one chart, after it came into sight."""
    card = page.locator(f"[data-panel='{panel}']")
    card.scroll_into_view_if_needed()
    page.wait_for_timeout(1500)
    answer: list[dict[str, Any]] = card.locator(".chart-plot").evaluate(
        "plot => plot.data.map(({name, x, y}) => ({name, x: [...x], y: [...y]}))"
    )
    return answer
