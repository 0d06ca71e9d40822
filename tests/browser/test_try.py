"""A network tried in Chromium: images dropped, pasted and taken, why, layers; and many images classified."""

from __future__ import annotations

import base64
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, expect

from tests.browser.pages import import_sample, set_up, start_training
from tests.browser.stack import Stack, wait_for
from tests.kits.serving import picture_bytes
from tests.surroundings import shared_processes

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

ODD_NAME = '<img src=x onerror=alert(1)> "q" قطة 🐈.png'
PATIENCE_MS = 60_000


@dataclass(frozen=True)
class Trained:
    stack: Stack
    run: int
    cookies: list[Any]

    @property
    def address(self) -> str:
        return f"{self.stack.address}/runs/{self.run}"


@pytest.fixture(scope="module")
def trained(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A run of one epoch on the digits, by the pages."""
    stack = Stack(tmp_path_factory.mktemp("try"))
    with shared_processes():
        stack.start()
    context = browser.new_context()
    try:
        page = context.new_page()
        set_up(page, stack.address, stack.setup_code)
        import_sample(page)
        run = start_training(page, epochs="1")
        expect(page.locator("[data-run-status]")).to_have_text("Succeeded", timeout=180_000)
        yield Trained(stack, run, context.cookies())
    finally:
        context.close()
        stack.stop()


@pytest.fixture
def problems() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture
def page(browser: Browser, trained: Trained, problems: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies(trained.cookies)
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


def visit(page: Page, trained: Trained, what: str = "try/") -> None:
    page.goto(f"{trained.address}/{what}")


def bring(page: Page, kind: str, *files: tuple[str, bytes]) -> None:
    """Drop or paste files, as the browser hands them to the page."""
    page.evaluate(
        """([kind, files]) => {
            const transfer = new DataTransfer();
            for (const [name, text] of files) {
                const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
                transfer.items.add(new File([bytes], name));
            }
            const about = { bubbles: true, cancelable: true };
            const event = kind === "paste"
                ? new ClipboardEvent("paste", { ...about, clipboardData: transfer })
                : new DragEvent("drop", { ...about, dataTransfer: transfer });
            document.querySelector("#content").dispatchEvent(event);
        }""",
        [kind, [[name, base64.b64encode(data).decode()] for name, data in files]],
    )


def card(page: Page, name: str) -> Locator:
    return page.locator(".try-card").filter(has=page.get_by_role("heading", name=name, exact=True))


def answered(page: Page, name: str) -> Locator:
    found = card(page, name)
    expect(found).to_have_attribute("data-state", "answered", timeout=PATIENCE_MS)
    return found


def test_a_dropped_image_is_answered_and_explained(page: Page, trained: Trained, problems: list[str]) -> None:
    visit(page, trained)
    bring(page, "drop", (ODD_NAME, picture_bytes(30, 20)))
    found = answered(page, ODD_NAME)
    expect(found.locator(".try-guess")).to_have_count(5)
    expect(found.locator("[data-card='facts']")).to_contain_text(re.compile("30 . 20 px"))
    expect(found.locator("[data-card='seen']")).to_have_js_property("complete", value=True)

    found.get_by_role("button", name="Why").click()
    why = found.locator(".why")
    expect(why).to_have_attribute("data-state", "answered", timeout=PATIENCE_MS)
    sentence = why.locator("[data-why='sentence']")
    expect(sentence).to_contain_text("Grad-CAM")
    assert why.locator("canvas").evaluate("canvas => canvas.width * canvas.height") > 1
    why.locator("input[type=range]").fill("80")
    expect(why.locator("canvas")).to_have_css("opacity", "0.8")
    first = sentence.text_content() or ""
    why.get_by_label("What speaks for").select_option(index=7)
    expect(sentence).not_to_have_text(first, timeout=PATIENCE_MS)
    expect(why).to_have_attribute("data-state", "answered", timeout=PATIENCE_MS)

    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".try-card")).to_have_count(0)
    assert problems == []


def test_what_is_no_image_says_so_and_the_others_are_answered(
    page: Page, trained: Trained, problems: list[str]
) -> None:
    visit(page, trained)
    bring(
        page,
        "drop",
        ("good.png", picture_bytes(8, 8)),
        ("empty.png", b""),
        ("notes.jpg", b"no image"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"),
        ("paper.pdf", b"%PDF-1.7"),
        ("all.zip", b"PK"),
    )
    answered(page, "good.png")
    expect(card(page, "empty.png")).to_contain_text("is empty (0 bytes)")
    for name in ("notes.jpg", "drawing.svg", "paper.pdf"):
        expect(card(page, name)).to_contain_text("cannot be read", timeout=PATIENCE_MS)
    expect(card(page, "all.zip")).to_contain_text("is an archive")
    bring(page, "drop", *((f"{n}.png", b"x") for n in range(65)))
    expect(page.get_by_role("alert")).to_contain_text("These are 65 files; 64 are tried at once.")
    bring(page, "paste")
    expect(page.get_by_role("alert")).to_contain_text("no image in the clipboard")
    assert problems == []


def test_an_image_is_pasted(page: Page, trained: Trained, problems: list[str]) -> None:
    visit(page, trained)
    bring(page, "paste", ("image.png", picture_bytes(16, 16)))
    answered(page, "image.png")
    assert problems == []


def test_a_sample_knows_its_truth_and_its_layers_have_an_address(
    page: Page, trained: Trained, problems: list[str]
) -> None:
    visit(page, trained)
    page.get_by_role("button", name="Take from the dataset").click()
    page.locator("[data-pick]").first.click()
    found = page.locator(".try-card").first
    expect(found).to_have_attribute("data-state", "answered", timeout=PATIENCE_MS)
    expect(found.locator("[data-card='verdict']")).to_have_text("right" if _is_right(found) else "wrong")

    found.get_by_role("link", name="Layers").click()
    rows = page.locator(".layer-row")
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("[data-layers-total]")).to_contain_text("parameters in all")
    rows.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".layer-tiles img").first).to_be_visible(timeout=PATIENCE_MS)
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.get_by_label("Type", exact=True).select_option("Linear")
    expect(page.locator("[data-layers-count]")).to_contain_text(" of ")
    assert "/try/layers/?dataset=" in page.url
    page.reload()
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Back to the answers").click()
    expect(page.get_by_role("heading", name="Images")).to_be_visible()
    assert problems == []


def _is_right(found: Locator) -> bool:
    guess = found.locator(".try-guess bdi").first.text_content()
    return guess == found.locator("[data-card='truth-name']").text_content()


def test_layers_of_an_image_that_was_brought(page: Page, trained: Trained, problems: list[str]) -> None:
    visit(page, trained)
    bring(page, "drop", ("mine.png", picture_bytes(12, 12)))
    answered(page, "mine.png").get_by_role("link", name="Layers").click()
    expect(page.locator(".layer-row").first).to_be_visible(timeout=PATIENCE_MS)
    page.go_back()
    expect(card(page, "mine.png")).to_be_visible()
    page.go_forward()
    expect(page.locator(".layer-row").first).to_be_visible(timeout=PATIENCE_MS)
    page.reload()
    expect(page.get_by_text("No image is open.")).to_be_visible()
    assert problems == []


def test_a_service_that_is_killed_comes_back(page: Page, trained: Trained) -> None:
    """Chromium itself reports the answer 503 as an error, so the console is not looked at."""
    visit(page, trained)
    page.route("**/predict*", lambda route: route.fulfill(status=503, json=_unavailable()), times=1)
    bring(page, "drop", ("late.png", picture_bytes(12, 12)), ("later.png", picture_bytes(12, 12)))
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(card(page, "late.png")).to_contain_text("Waiting")
    page.get_by_role("button", name="Try again").click()
    answered(page, "late.png")
    answered(page, "later.png")
    expect(page.get_by_role("alert")).to_have_count(0)


def _unavailable() -> dict[str, dict[str, str]]:
    words = {"message": "The service of pictures and trained models does not answer.", "hint": "Try again."}
    return {"error": {"code": "serve.unavailable", **words}}


def test_many_images_are_classified(page: Page, trained: Trained, tmp_path: Path, problems: list[str]) -> None:
    archive = tmp_path / "holiday.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for n in range(8):
            made.writestr(f"7/{n}.png", picture_bytes(8, 8, colour=["black", "white"][n % 2]))
        made.writestr(f"3/{ODD_NAME.replace('/', '')}", picture_bytes(8, 8))
        made.writestr("broken.png", b"no image")
    visit(page, trained, "classify/")
    page.get_by_role("button", name="Classify").click()
    expect(page.get_by_role("alert")).to_contain_text("There is nothing to classify yet.")
    page.locator("[data-input=files]").set_input_files(archive)
    page.get_by_role("button", name="Classify").click()
    page.wait_for_url("**/classifications/**")
    expect(page.locator(".class-table")).to_be_visible(timeout=120_000)
    expect(page.get_by_text("1 to 10 of 10")).to_be_visible()
    expect(page.get_by_text("Unreadable: not an image").first).to_be_visible()
    page.get_by_label("Unreadable").check()
    expect(page.get_by_text("1 to 1 of 1")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("link", name="Confidence").click()
    page.wait_for_url("**sort=-confidence**")
    page.get_by_label("Truth").select_option("7")
    expect(page.get_by_text("1 to 8 of 8")).to_be_visible()
    assert "sort=-confidence" in page.url, "a filter keeps the order"
    page.get_by_role("link", name="Surest of each class").click()
    expect(page.get_by_text("Classes 1 to 10 of 10")).to_be_visible()
    page.get_by_role("link", name="Classify again").click()
    expect(page.get_by_text("holiday.zip", exact=True).first).to_be_visible()
    assert problems == []


def test_a_zip_that_is_none_fails_with_a_sentence(page: Page, trained: Trained, problems: list[str]) -> None:
    visit(page, trained, "classify/")
    page.locator("[data-input=files]").set_input_files(
        {"name": "fake.zip", "mimeType": "application/zip", "buffer": b"random bytes"}
    )
    page.get_by_role("button", name="Classify").click()
    page.wait_for_url("**/classifications/**")
    expect(page.get_by_role("alert")).to_contain_text("fake.zip", timeout=120_000)
    assert problems == []


def exported(page: Page, trained: Trained) -> None:
    """To ONNX, with the evaluation of the run behind it."""
    api = f"{trained.stack.address}/api/v1/trainings/{trained.run}"
    page.evaluate(
        """async (address) => {
            const token = document.querySelector("meta[name=csrf-token]").content;
            const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
            const body = JSON.stringify({ targets: [{ backend: { name: "onnx" }, precision: "fp32" }] });
            const answer = await fetch(address, { method: "POST", headers, body });
            if (answer.status !== 201) throw new Error(await answer.text());
        }""",
        f"{api}/exports",
    )

    def compared() -> bool:
        return len([side for side in page.request.get(f"{api}/comparables").json() if not side["why_not"]]) == 2

    wait_for("an export and an evaluation", compared, patience_s=120)


def test_an_export_is_tried_and_held_against_its_checkpoint(page: Page, trained: Trained, problems: list[str]) -> None:
    visit(page, trained)
    exported(page, trained)

    page.reload()
    networks = page.get_by_label("Shown to")
    expect(networks).to_contain_text(re.compile(r"ONNX FP32 of step-\d+ \(passed\)"))
    networks.select_option(networks.locator("option", has_text="ONNX FP32").get_attribute("value"))
    bring(page, "drop", (ODD_NAME, picture_bytes(30, 20)))
    tried = answered(page, ODD_NAME)
    expect(tried.locator("[data-card='facts']")).to_contain_text("ONNX FP32")
    expect(tried.get_by_role("button", name="Why")).to_be_disabled()
    expect(tried).to_contain_text("an export answers as a whole")

    visit(page, trained, "compare/")
    expect(page.locator("[data-figure='agreement']")).to_have_text("100.00 %")
    page.get_by_role("link", name=re.compile("Both right")).click()
    expect(page).to_have_url(re.compile("kind=both_right"))
    page.locator("#gallery [data-pick]").first.click()
    both = page.locator(".try-card[data-state='answered']")
    expect(both.locator("tbody tr")).to_have_count(5, timeout=PATIENCE_MS)
    expect(both.get_by_text("right", exact=True)).to_have_count(2)
    assert set(both.locator(".duel-points").all_text_contents()) <= {"0.00", "+0.01", "\N{MINUS SIGN}0.01"}
    head = both.locator("[data-card='name-a']")
    first = head.text_content() or ""
    page.get_by_role("button", name="Swap").click()
    expect(head).not_to_have_text(first, timeout=PATIENCE_MS)
    expect(page).to_have_url(re.compile("a=export"))
    assert problems == []
