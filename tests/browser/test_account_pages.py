"""The first visit, invitations, tokens and the API's docs, in Chromium under the real content security policy."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from tests.browser.stack import PROJECT_DIR, free_port, wait_for

pytestmark = pytest.mark.slow

PASSWORD = "correct horse battery"  # noqa: S105


class Web:
    """The web process alone, with a database and static files of its own."""

    def __init__(self, data_dir):
        self.data_dir = data_dir
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        self.environment = inherited | {"DATA_DIR": str(data_dir), "REDIS_URL": f"unix://{data_dir}/none.sock?db=0"}

    def run(self, *command):
        options = {"cwd": PROJECT_DIR, "env": self.environment}
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, **options)

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.address}/healthz") as answer:
                return answer.status == 200
        except urllib.error.URLError:
            return False


@pytest.fixture
def web(tmp_path):
    web = Web(tmp_path)
    web.run("manage.py", "migrate", "--verbosity=0")
    web.run("manage.py", "collectstatic", "--no-input", "--verbosity=0")
    command = ["-m", "uvicorn", "config.asgi:application", "--port", str(web.port), "--log-level", "warning"]
    process = subprocess.Popen([sys.executable, *command], cwd=PROJECT_DIR, env=web.environment)
    wait_for("the web process answers", web.answers)
    yield web
    process.terminate()
    process.wait()


@contextmanager
def visitor(browser, web):
    """A page that fails the test when it breaks the policy, meets an error, or asks another server for anything."""
    context = browser.new_context(base_url=web.address)
    page = context.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: _own(request.url, web) or troubles.append(request.url))
    yield page
    context.close()
    assert not [text for text in troubles if "/ws/" not in text and "422" not in text]


def _own(url, web):
    return url.startswith((web.address, web.address.replace("http", "ws"), "data:", "blob:"))


def sign_in(page):
    page.goto("/login/")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")


def first_visit(browser, web, artefacts_dir):
    with visitor(browser, web) as page:
        page.goto("/")
        assert page.url.endswith("/setup/")
        page.get_by_label("Set-up code").fill("WRONG")
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("The same again").fill(PASSWORD)
        page.get_by_role("button", name="Make the account").click()
        page.get_by_text("This is not the set-up code.").wait_for()
        page.screenshot(path=artefacts_dir / "setup.png")
        page.get_by_label("Set-up code").fill((web.data_dir / "setup-code").read_text())
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("The same again").fill(PASSWORD)
        page.get_by_role("button", name="Make the account").click()
        page.wait_for_url("**/")
        assert page.get_by_role("navigation", name="Main").is_visible()


def invitation(browser, web, artefacts_dir):
    with visitor(browser, web) as page, visitor(browser, web) as guest:
        sign_in(page)
        page.goto("/settings/users/")
        page.get_by_label("For whom").fill("Grace")
        page.get_by_role("button", name="Make an invitation").click()
        link = page.locator("#link").inner_text()
        page.screenshot(path=artefacts_dir / "users.png", full_page=True)
        guest.goto(link)
        guest.get_by_label("Name").fill("grace")
        guest.get_by_label("Password").fill(PASSWORD)
        guest.get_by_label("The same again").fill(PASSWORD)
        guest.screenshot(path=artefacts_dir / "invite.png")
        guest.get_by_role("button", name="Make my account").click()
        guest.wait_for_url("**/")
        page.goto("/settings/users/")
        page.get_by_role("button", name="Deactivate grace").click()
        page.get_by_text("grace is deactivated.").wait_for()
        guest.goto("/")
        assert "/login/" in guest.url


def token_and_account(browser, web, artefacts_dir):
    with visitor(browser, web) as page:
        sign_in(page)
        page.goto("/settings/tokens/")
        page.get_by_label("Name").fill("laptop")
        page.get_by_role("button", name="Make a token").click()
        assert page.locator("#secret").inner_text().startswith("fovea_")
        page.screenshot(path=artefacts_dir / "tokens.png", full_page=True)
        page.goto("/settings/account/")
        page.get_by_label("Display name").fill("Countess")
        page.get_by_label("Theme").select_option("dark")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved.").wait_for()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.screenshot(path=artefacts_dir / "account.png", full_page=True)


def api_docs(browser, web, artefacts_dir):
    with visitor(browser, web) as page:
        sign_in(page)
        page.goto("/api/v1/docs")
        page.locator("#operations-accounts-me").wait_for()
        assert page.locator(".opblock").count() > 25
        page.screenshot(path=artefacts_dir / "api-docs.png")
        page.locator("#operations-accounts-user_invite .opblock-summary-control").click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_role("button", name="Execute").click()
        answered = page.locator(
            "#operations-accounts-user_invite .live-responses-table tbody .response-col_status"
        ).first
        assert answered.inner_text().startswith("201")


def test_account_pages_and_api_docs(browser, web, artefacts_dir):
    """One test, so that the server starts once; what each step is about stands in its name."""
    for step in (first_visit, invitation, token_and_account, api_docs):
        step(browser, web, artefacts_dir)
