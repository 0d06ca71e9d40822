"""What the Content-Security-Policy would break in a browser, and what reading alone shows about the templates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template.loader import get_template

ROOT = Path(settings.BASE_DIR)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
STYLES = sorted((ROOT / "static" / "css").glob("*.css"))


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_no_template_holds_script_style_or_handlers(path):
    html = path.read_text()
    scripts = re.findall(r"<script\b([^>]*)>(.*?)</script>", html, re.DOTALL)
    assert [tag for tag, body in scripts if body.strip() and 'type="application/json"' not in tag] == []
    assert re.findall(r"<style\b", html) == []
    assert re.findall(r"\sstyle\s*=", html) == []
    assert re.findall(r"\s(?:on[a-z]+|hx-on[:-][\w:-]*)\s*=", html) == []
    assert re.findall(r"javascript:", html) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_every_template_can_be_parsed(path):
    get_template(str(path.relative_to(ROOT / "templates")))


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_nothing_is_fetched_from_elsewhere(path):
    assert re.findall(r'(?:src|href|action)="(?:https?:)?//', path.read_text()) == []


@pytest.mark.parametrize("path", STYLES, ids=name_of)
def test_colours_are_tokens(path):
    css = path.read_text()
    if path.name != "tokens.css":
        css = re.sub(r"::backdrop\s*{[^}]*}", "", css)
        assert re.findall(r":[^;{]*#[0-9a-fA-F]{3,8}\b[^;]*;", css) == []
    assert "@import" not in css


def test_both_dark_blocks_say_the_same():
    css = (ROOT / "static" / "css" / "tokens.css").read_text()
    blocks = re.findall(r"color-scheme: dark;(.*?)}", css, re.DOTALL)
    assert len(blocks) == 2
    assert blocks[0].split() == blocks[1].split()


@pytest.mark.parametrize(("cookie", "attribute"), [("dark", ' data-theme="dark"'), ("light", ' data-theme="light"')])
def test_the_chosen_theme_is_in_the_page_from_the_start(api, cookie, attribute):
    api.cookies["theme"] = cookie
    assert f'<html lang="en"{attribute}>' in api.get("/").content.decode()


def test_a_theme_that_does_not_exist_is_ignored(api):
    api.cookies["theme"] = '"><script>'
    assert '<html lang="en">' in api.get("/").content.decode()


def test_every_page_has_a_skip_link_one_heading_and_a_title(api):
    for path in ("/", "/datasets/", "/runs/new", "/settings/tokens/", "/settings/account/"):
        html = api.get(path).content.decode()
        assert 'href="#content"' in html
        assert len(re.findall(r"<h1\b", html)) == 1
        assert re.search(r"<title>[^<]+ · Fovea</title>", html)
