"""Fovea below a folder of a site: what reaches it, and that no page or script writes an address past it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import RequestFactory
from django.urls import get_script_prefix, set_script_prefix

from config.prefix import BelowPrefix
from dashboard.addresses import api_address, inner_path
from dashboard.errors import server_error

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "/tools/fovea"


async def told(path, *, prefix=PREFIX, kind="http"):
    """What the application is given, and what it or the prefix answers."""
    scopes, answers = [], []

    async def application(scope, receive, send):
        scopes.append(scope)

    async def send(message):
        answers.append(message)

    await BelowPrefix(application, prefix)({"type": kind, "path": path, "root_path": ""}, None, send)
    return scopes, answers


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_what_is_below_it_keeps_its_path_and_learns_its_root(kind):
    (scope,), answers = await told(f"{PREFIX}/runs/3/", kind=kind)
    assert (scope["root_path"], scope["path"]) == (PREFIX, f"{PREFIX}/runs/3/")
    assert inner_path(scope) == "/runs/3/"
    assert not answers


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/runs/3/", f"{PREFIX}x/", f"/x{PREFIX}/", "/tools/"])
async def test_what_is_beside_it_is_not_here(path):
    scopes, (start, body) = await told(path)
    assert not scopes
    assert start["status"] == 404
    assert PREFIX.encode() in body["body"]


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", PREFIX])
async def test_the_front_page_leads_to_it(path):
    _, (start, _) = await told(path)
    assert (start["status"], dict(start["headers"])[b"location"]) == (307, f"{PREFIX}/".encode())


@pytest.mark.asyncio
async def test_who_probes_the_process_need_not_know_it():
    (scope,), _ = await told("/healthz")
    assert scope["path"] == f"{PREFIX}/healthz"


@pytest.mark.asyncio
async def test_a_socket_beside_it_is_refused():
    scopes, answers = await told("/ws/changes/", kind="websocket")
    assert not scopes
    assert answers == [{"type": "websocket.close", "code": 4404}]


@pytest.mark.asyncio
async def test_without_one_nothing_changes():
    (scope,), _ = await told("/runs/3/", prefix="")
    assert scope == {"type": "http", "path": "/runs/3/", "root_path": ""}


@pytest.fixture
def script_prefix():
    """As Django sets it where FORCE_SCRIPT_NAME is ``URL_PREFIX``."""
    before = get_script_prefix()
    set_script_prefix(PREFIX)
    yield
    set_script_prefix(before)


@pytest.mark.usefixtures("script_prefix")
def test_addresses_that_pages_are_given_are_below_it(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    assert api_address("trainings/3/predict") == f"{PREFIX}/api/v1/trainings/3/predict"
    page = server_error(RequestFactory().get(f"{PREFIX}/runs/3/")).content.decode()
    assert f'href="{PREFIX}/"' in page


def test_no_template_writes_an_address_from_the_root_of_the_site():
    attribute = re.compile(r"""\b(?:href|src|action|formaction|hx-[a-z]+|data-[a-z-]+)=["']/""")
    strays = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in (ROOT / "templates").rglob("*.html")
        for found in attribute.finditer(path.read_text())
    ]
    assert not strays, "use {% url %}"


def test_no_script_asks_for_an_address_without_the_folder_before_it():
    """``getJson`` and ``sendJson`` put it there, for everything else there is ``addressOf``."""
    address = re.compile(r"""(?P<before>[\w.]*\(?\s*)["'`]/(?:api|ws|runs|rows|datasets|jobs|trash|exports)/""")
    given = ("addressOf(", "socketAddressOf(", "getJson(")
    strays = []
    for path in (ROOT / "static" / "js").rglob("*.js"):
        text = path.read_text()
        for found in address.finditer(text):
            line = text[text.rfind("\n", 0, found.start()) + 1 : text.find("\n", found.end())]
            if not found["before"].rstrip().endswith(given) and not _is_for_json(line, path):
                strays.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert not strays, "use addressOf"


def _is_for_json(line, path):
    if re.match(r"\s*(\*|//|/\*\*)", line) or "sendJson(" in line:
        return True
    # A path that a function returns, in modules that ask by getJson alone.
    return re.search(r"(return|const path =|=>) [`\"]/api/", line) is not None and "getJson(" in path.read_text()
