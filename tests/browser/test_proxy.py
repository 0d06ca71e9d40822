"""Behind a real nginx, set up as Fovea ships it: TLS, a folder of the site, sockets, uploads, downloads."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import PASSWORD, stored
from tests.browser.serving import prepared_server
from tests.browser.stack import wait_for
from tests.kits.nginx import Nginx, nginx_path, running_nginx
from tests.surroundings import shared_processes
from tests.tus import PIECE, TUS, Answered, metadata

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not nginx_path(), reason="there is no nginx")]

SERVER = "from tests.browser.proxied_server import main; main()"
PREFIX = "/tools/fovea"
PIECE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Site:
    """What people see of it."""

    nginx: Nginx
    direct: str
    data_dir: Path
    run: int
    large: str
    token: str

    @property
    def address(self) -> str:
        return f"{self.nginx.address}{PREFIX}"

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Answered:
        """By TLS, which is checked; with the token."""
        trusted = ssl.create_default_context(cafile=str(self.nginx.certificate))
        connection = http.client.HTTPSConnection("localhost", self.nginx.https_port, context=trusted, timeout=60)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **(headers or {})})
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def go_on(self, step: int) -> None:
        (self.data_dir / "step").write_text(str(step))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    data_dir = tmp_path_factory.mktemp("proxied")
    settings = {"URL_PREFIX": PREFIX, "HTTPS_ONLY": "true", "ALLOWED_HOSTS": "localhost"}
    with prepared_server(SERVER, data_dir, **settings) as (direct, made):
        port = urlsplit(direct).port
        assert port
        with shared_processes():
            entered = running_nginx(tmp_path_factory.mktemp("nginx"), upstream_port=port, prefix=PREFIX)
            nginx = entered.__enter__()
        yield Site(nginx, direct, data_dir, **made)
        entered.__exit__(None, None, None)


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Signed in; at the end every address that it asked for was below the folder, and answered."""
    context = browser.new_context(ignore_https_errors=True, viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    asked: list[str] = []
    failed: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("websocket", lambda socket: asked.append(socket.url))
    opened.on(
        "response", lambda answer: failed.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None
    )
    opened.goto(f"{site.address}/")
    opened.get_by_label("Name", exact=True).fill("ada")
    opened.locator("input[type=password]").fill(PASSWORD)
    opened.get_by_role("button", name="Sign in").click()
    opened.wait_for_url(f"{site.address}/")
    yield opened
    context.close()
    assert not failed
    strays = [url for url in asked if not urlsplit(url).path.startswith(f"{PREFIX}/") and not url.startswith("data:")]
    assert not strays
    assert not [url for url in asked if urlsplit(url).scheme in {"http", "ws"}]


def test_a_run_is_followed_live_and_its_pages_lead_to_one_another(site: Site, page: Page) -> None:
    expect(page.locator("[data-connection='live']")).to_be_visible(timeout=20_000)
    page.locator(f"a[href='{PREFIX}/runs/{site.run}/']").first.click()
    expect(page.locator("[data-connection='live']")).to_be_visible(timeout=20_000)
    site.go_on(430)
    page.wait_for_function("() => window.fovea.store.series.get('train/loss').step.at(-1) === 430")
    assert len(stored(page)["train/loss"]) > 100
    page.get_by_role("link", name="API docs").click()
    expect(page.locator(".swagger-ui .info")).to_be_visible(timeout=20_000)
    page.goto(f"{site.address}/settings/account/")
    page.locator("[data-theme-toggle]").click()
    names = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert {cookie["path"] for cookie in names.values()} == {f"{PREFIX}/"}
    assert names["sessionid_tools_fovea"]["secure"]
    assert names["sessionid_tools_fovea"]["httpOnly"]
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{site.address}/login/")


def test_a_file_goes_up_from_the_browser(site: Site, page: Page, tmp_path: Path) -> None:
    page.goto(f"{site.address}/datasets/new/")
    archive = tmp_path / "pets.zip"
    archive.write_bytes(bytes(3 * 2**20))
    page.locator("input[type=file]").first.set_input_files(archive)
    uploads = site.data_dir / "uploads"
    wait_for("it is there", lambda: [each.stat().st_size for each in uploads.glob("*")] == [3 * 2**20], patience_s=30)
    page.reload()
    page.get_by_role("button", name="Delete").first.click()
    wait_for("it is gone", lambda: not list(uploads.glob("*")), patience_s=30)


def test_pieces_go_up_and_come_down_in_ranges(site: Site) -> None:
    content = bytes(range(256)) * (36 * 2**12)
    begun = site.call(
        "POST",
        f"{PREFIX}/api/v1/uploads/",
        {**TUS, "Upload-Length": str(len(content)), "Upload-Metadata": metadata(filename="pets.zip")},
    )
    assert begun.status == 201, begun.body
    location = begun.headers["location"]
    assert location.startswith(f"{PREFIX}/api/v1/uploads/")
    for offset in range(0, len(content), PIECE_BYTES):
        piece = content[offset : offset + PIECE_BYTES]
        sent = site.call("PATCH", location, {**PIECE, "Upload-Offset": str(offset)}, piece)
        assert (sent.status, sent.headers["upload-offset"]) == (204, str(offset + len(piece)))
    assert (site.data_dir / "uploads" / location.rpartition("/")[2]).read_bytes() == content
    assert site.call("DELETE", location, TUS).status == 204

    path = f"{PREFIX}/api/v1/exports/{site.large}"
    whole = site.call("GET", path)
    assert (whole.status, len(whole.body)) == (200, 40 * 2**20)
    span = {"Range": "bytes=20000000-20000999", "If-Range": whole.headers["etag"]}
    part = site.call("GET", path, span)
    assert (part.status, part.headers["content-range"]) == (206, f"bytes 20000000-20000999/{40 * 2**20}")
    assert part.body == whole.body[20_000_000:20_001_000]


def test_what_is_not_below_the_folder_is_elsewhere(site: Site) -> None:
    direct = http.client.HTTPConnection("127.0.0.1", urlsplit(site.direct).port or 0, timeout=20)
    for path in ("/api/v1/jobs", f"{PREFIX}x/", "/tools/"):
        direct.request("GET", path)
        answer = direct.getresponse()
        assert (answer.status, answer.read().decode()) == (404, f"Fovea is at {PREFIX}/ of this site.\n")
    direct.request("GET", "/healthz", headers={"Host": "localhost"})
    assert direct.getresponse().status == 200
    direct.close()
    listed = site.call("GET", f"{PREFIX}/api/v1/jobs")
    assert listed.status == 200, listed.body
    assert listed.headers["strict-transport-security"] == "max-age=31536000"
    refused = site.call("GET", f"{PREFIX}/api/v1/jobs/999999")
    assert (refused.status, refused.error["code"]) == (404, "not_found")
    plain = http.client.HTTPConnection("localhost", site.nginx.http_port, timeout=20)
    plain.request("GET", f"{PREFIX}/")
    assert plain.getresponse().headers["location"] == f"https://localhost{PREFIX}/"
    plain.close()


def test_no_address_of_an_invitation_is_logged(site: Site, page: Page) -> None:
    made = site.call("POST", f"{PREFIX}/api/v1/users", {"Content-Type": "application/json"}, b"{}")
    assert made.status == 201, made.body
    token = json.loads(made.body)["link"].split("/")[-2]
    page.context.clear_cookies()
    page.goto(f"{site.address}/invite/{token}/")
    expect(page.locator("input[type=password]").first).to_be_visible()
    assert site.call("GET", f"{PREFIX}/invite/{token}x/").status == 410
    plain = http.client.HTTPConnection("localhost", site.nginx.http_port, timeout=20)
    plain.request("GET", f"{PREFIX}/invite/{token}/")
    assert plain.getresponse().status == 301
    plain.close()
    log = site.nginx.access_log.read_text()
    assert f"{PREFIX}/static/" in log
    assert token not in log
    own_log = (site.data_dir / "web.txt").read_text()
    assert f"{PREFIX}/invite/…/" in own_log
    assert token not in own_log
    assert '"GET ' not in own_log
