"""Bringing images as a person does: dropped, cut off, closed, continued, and imported."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, expect

from tests.browser.pages import PASSWORD, set_up
from tests.browser.proxy import Proxy
from tests.browser.stack import Stack, wait_for
from tests.surroundings import shared_processes

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

CLASSES = ("bird", "cat", "dog", "猫")
N_PER_CLASS = 12
SLOW_BYTES_PER_S = 1.5 * 2**20


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("upload") / "data", IMPORT_ROOTS=str(folder.parent))
    with shared_processes():
        running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def cookies(browser: Browser, stack: Stack) -> list[Any]:
    """Of the first person, who is signed in."""
    context = browser.new_context()
    set_up(context.new_page(), stack.address, stack.setup_code)
    found: list[Any] = context.cookies()
    context.close()
    return found


@pytest.fixture
def proxy(stack: Stack) -> Iterator[Proxy]:
    with Proxy(stack.port) as running:
        yield running


@pytest.fixture
def context(browser: Browser, stack: Stack, proxy: Proxy, cookies: list[Any]) -> Iterator[BrowserContext]:
    """Signed in, and through the proxy; no upload is left for the next test."""
    made = browser.new_context(
        base_url=f"http://127.0.0.1:{proxy.port}", viewport={"width": 1440, "height": 900}, locale="en-GB"
    )
    made.set_default_timeout(30_000)
    made.add_cookies(cookies)
    yield made
    made.close()
    with closing(browser.new_context(base_url=stack.address)) as after:
        after.add_cookies(cookies)
        page = after.new_page()
        page.goto("/datasets/new/")
        delete_uploads(page)
    wait_for("no upload is left", lambda: not arrived_bytes(stack))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise, which no compression makes smaller, so that its upload takes a while."""
    root = tmp_path_factory.mktemp("images") / "pets"
    noise = np.random.default_rng(0)
    for name in CLASSES:
        (root / name).mkdir(parents=True)
        for index in range(N_PER_CLASS):
            pixels = noise.integers(0, 256, (240, 240, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{index}.png")
    (root / ".DS_Store").write_bytes(b"clutter")
    return root


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    path = folder.parent / "pets.zip"
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(folder.rglob("*.png")):
            made.write(file, file.relative_to(folder))
    return path


def sign_in(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("ada")
    page.locator("input[type=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: "/login/" not in address)


def open_form(context: BrowserContext) -> Page:
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/datasets/new/")
    return page


def drop(page: Page, path: Path) -> None:
    """As the desktop does it: the page gets real entries, folders among them."""
    box = page.locator("[data-drop]").bounding_box()
    assert box
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    devtools = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})


def slow_down(page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    limits = {"offline": False, "latency": 5, "downloadThroughput": -1, "uploadThroughput": SLOW_BYTES_PER_S}
    devtools.send("Network.emulateNetworkConditions", limits)


def arrived_bytes(stack: Stack) -> int:
    return sum(path.stat().st_size for path in (stack.data_dir / "uploads").glob("*"))


def wait_for_bytes(stack: Stack, n_bytes: int) -> None:
    wait_for(f"{n_bytes} bytes on the server", lambda: arrived_bytes(stack) >= n_bytes)


def says(page: Page) -> str:
    return page.locator("[data-current-text]").inner_text()


def expect_imported(page: Page, n_images: int) -> int:
    page.wait_for_url(re.compile(r"/datasets/\d+/$"), timeout=60_000)
    expect(page.get_by_role("link", name="Train on this")).to_be_visible(timeout=90_000)
    found = re.search(r"/datasets/(\d+)/$", page.url)
    assert found
    answer = page.request.get(f"/api/v1/datasets/{found[1]}").json()
    assert answer["dataset_meta"]["n_images"] == n_images
    assert set(answer["dataset_meta"]["classes"]) == set(CLASSES)
    return int(found[1])


def delete_uploads(page: Page) -> None:
    token = page.locator('meta[name="csrf-token"]').get_attribute("content") or ""
    for upload in page.request.get("/api/v1/uploads").json():
        page.request.delete(f"/api/v1/uploads/{upload['id']}", headers={"X-CSRFToken": token, "Referer": page.url})


def test_an_archive_outlasts_a_cut_and_a_closed_tab(
    context: BrowserContext, stack: Stack, proxy: Proxy, archive: Path, artefacts_dir: Path
) -> None:
    page = open_form(context)
    slow_down(page)
    drop(page, archive)
    expect(page.locator("[data-current-text]")).to_contain_text("/s,", timeout=20_000)
    assert page.locator("#name").input_value() == "pets"
    page.screenshot(path=artefacts_dir / "uploading.png")

    proxy.cut()
    expect(page.locator("[data-current-text]")).to_contain_text("Waiting for the connection", timeout=30_000)
    before = arrived_bytes(stack)
    assert 0 < before < archive.stat().st_size
    proxy.mend()
    wait_for_bytes(stack, before + 1)
    page.close(run_before_unload=False)

    again = open_form(context)
    slow_down(again)
    expect(again.get_by_role("button", name="Continue pets.zip")).to_be_visible()
    kept = arrived_bytes(stack)
    created: list[str] = []
    again.on("request", lambda request: created.append(request.url) if request.method == "POST" else None)
    drop(again, archive)
    again.get_by_role("button", name="Import", exact=True).click()
    expect(again.locator("[data-start-state]")).to_contain_text("Imports when the upload is complete")
    assert arrived_bytes(stack) >= kept
    expect_imported(again, len(CLASSES) * N_PER_CLASS)
    assert not [url for url in created if "/api/v1/uploads" in url], "it was to go on, not to begin anew"
    (file,) = (stack.data_dir / "uploads").glob("*")
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(archive.read_bytes()).digest()


def test_a_dropped_folder_is_imported_with_all_its_files(context: BrowserContext, folder: Path) -> None:
    page = open_form(context)
    drop(page, folder)
    expect(page.locator("[data-current-name]")).to_have_text(f"pets, {len(CLASSES) * N_PER_CLASS + 1} files")
    expect(page.locator("[data-current-text]")).to_contain_text("uploaded.", timeout=60_000)
    page.get_by_role("button", name="Import", exact=True).click()
    number = expect_imported(page, len(CLASSES) * N_PER_CLASS)

    page.goto(f"/datasets/new/?again={number}")
    expect(page.locator("[data-current-name]")).to_have_text("pets.tar")
    expect(page.locator("#differences")).to_contain_text("Nothing differs.")
    page.locator(".import-options > summary").click()
    page.locator("[name=options-classes]").fill("cat\ndog")
    expect(page.locator("#differences")).to_contain_text("Classes to keep: cat, dog instead of all")
    _complete_paths_and_import_lists(page, folder)


def _complete_paths_and_import_lists(page: Page, folder: Path) -> None:
    page.goto("/datasets/new/?from=folder")
    path, options = page.locator("#path"), page.locator("#path-options")
    path.press_sequentially(str(folder.parent)[:-2])
    expect(options.get_by_role("option")).to_have_count(1)
    path.press("ArrowDown")
    expect(path).to_have_attribute("aria-activedescendant", "path-options-0")
    path.press("Enter")
    expect(path).to_have_value(f"{folder.parent}/")
    expect(options).to_have_text("pets/")
    path.press("Tab")
    expect(path).to_have_value(f"{folder}/")
    expect(options).to_be_visible()
    path.press("Escape")
    expect(options).to_be_hidden()

    page.locator("[data-tab=lists]").click()
    assert page.url.endswith("?from=lists")
    lines = [f"{name}/{index}.png {label}" for label, name in enumerate(CLASSES) for index in range(N_PER_CLASS)]
    for name, text in (("train_list", lines), ("labels_list", CLASSES)):
        field = page.locator("[data-path-field]", has=page.locator(f"#{name}"))
        file: FilePayload = {"name": f"{name}.txt", "mimeType": "text/plain", "buffer": "\n".join(text).encode()}
        field.locator("[data-file-input]").set_input_files(file)
        expect(field.locator("[data-file-state]")).to_have_text("Uploaded")
    page.locator("#lists_folder").fill(str(folder))
    page.locator("#lists_folder").press("Escape")
    page.get_by_role("button", name="Import", exact=True).click()
    expect_imported(page, len(CLASSES) * N_PER_CLASS)


def test_a_pause_holds_and_what_is_stopped_in_one_tab_goes_on_in_another(
    context: BrowserContext, stack: Stack, archive: Path, artefacts_dir: Path
) -> None:
    page = open_form(context)
    _pause_and_cancel(page, stack, archive)
    page.close()
    _take_over(context, stack, archive)
    _sign_in_beside_it(context, stack, archive, artefacts_dir)


def _pause_and_cancel(page: Page, stack: Stack, archive: Path) -> None:
    slow_down(page)
    drop(page, archive)
    wait_for_bytes(stack, 1)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-current-text]")).to_contain_text("Paused")
    page.wait_for_timeout(500)
    held = arrived_bytes(stack)
    page.wait_for_timeout(1500)
    assert arrived_bytes(stack) == held
    page.get_by_role("button", name="Resume").click()
    wait_for_bytes(stack, held + 1)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("[data-drop]")).to_be_visible()
    wait_for("no file is left", lambda: not list((stack.data_dir / "uploads").glob("*")))
    expect(page.get_by_text("Your uploads")).to_be_hidden()
    assert page.locator("#name").input_value() == ""


def _take_over(context: BrowserContext, stack: Stack, archive: Path) -> None:
    first, second = open_form(context), open_form(context)
    slow_down(first)
    drop(first, archive)
    wait_for_bytes(stack, 1)
    drop(second, archive)
    expect(second.locator("[data-current-text]")).to_contain_text("Another tab is uploading this.")
    first.close(run_before_unload=False)
    expect(second.locator("[data-current-text]")).to_contain_text("uploaded.", timeout=60_000)
    (file,) = (stack.data_dir / "uploads").glob("*")
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(archive.read_bytes()).digest()
    delete_uploads(second)
    second.close()


def _sign_in_beside_it(context: BrowserContext, stack: Stack, archive: Path, artefacts_dir: Path) -> None:
    page = open_form(context)
    slow_down(page)
    drop(page, archive)
    wait_for_bytes(stack, 1)
    context.clear_cookies()
    error = page.locator("[data-upload-error]")
    expect(error).to_contain_text("You are no longer signed in.", timeout=20_000)
    page.screenshot(path=artefacts_dir / "upload-signed-out.png")
    kept = arrived_bytes(stack)
    with context.expect_page() as opened:
        error.get_by_role("link", name="Sign in").click()
    sign_in(opened.value)
    opened.value.close()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("[data-current-text]")).to_contain_text("uploaded.", timeout=60_000)
    assert kept > 0
    page.get_by_role("button", name="Import", exact=True).click()
    expect_imported(page, len(CLASSES) * N_PER_CLASS)


def test_what_cannot_become_a_dataset_is_said_with_a_way_out(
    context: BrowserContext, stack: Stack, folder: Path, tmp_path: Path
) -> None:
    page = open_form(context)
    (tmp_path / "hollow").mkdir()
    (tmp_path / "nothing.zip").touch()
    error = page.locator("[data-upload-error]")
    for path, words in (
        (next((folder / "cat").iterdir()), "is one image; a dataset needs several"),
        (folder / "cat", "lie in one folder, cat: no classes can be told."),
        (tmp_path / "hollow", "The folder hollow holds no files."),
        (tmp_path / "nothing.zip", "nothing.zip is empty (0 bytes)."),
    ):
        drop(page, path)
        expect(error).to_contain_text(words)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(error).to_contain_text("There is nothing to import yet.")
    assert arrived_bytes(stack) == 0
    broken = tmp_path / "broken.zip"
    broken.write_bytes(io.BytesIO(bytes(range(256)) * 40).getvalue())
    drop(page, broken)
    page.get_by_role("button", name="Import", exact=True).click()
    page.wait_for_url(re.compile(r"/datasets/\d+/$"), timeout=30_000)
    expect(page.locator(".banner-error")).to_contain_text("broken.zip", timeout=60_000)
    page.locator('a[href*="/datasets/new/?again="]').first.click()
    page.wait_for_url(re.compile(r"/datasets/new/\?again=\d+"))
