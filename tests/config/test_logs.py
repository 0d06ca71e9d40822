"""Lines of the log: for people and for programs, with what they are about."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from config.logs import TEXT_FORMAT, JsonLines, WithContext
from dashboard.request_log import NamedRequests
from jobs import log_context
from jobs.log_context import add_to_log, log_always_with, logged_with


def record(message, *values, **more):
    made = logging.LogRecord("jobs.dispatch", logging.WARNING, __file__, 1, message, values, more.pop("fault", None))
    vars(made).update(more)
    WithContext().filter(made)
    return made


def as_json(*args, **more):
    (line,) = JsonLines().format(record(*args, **more)).splitlines()
    return json.loads(line)


def test_what_a_message_names_is_a_field():
    line = as_json("adopting job=%s attempt=%s on device=%s", 17, 2, "cuda:0")
    assert (line["job"], line["attempt"], line["device"]) == (17, 2, "cuda:0")
    assert (line["level"], line["logger"]) == ("warning", "jobs.dispatch")
    assert line["message"] == "adopting job=17 attempt=2 on device=cuda:0"
    assert line["at"].endswith("Z")


def test_a_fault_stays_on_one_line():
    try:
        Path("/no\nwhere").read_text()
    except FileNotFoundError:
        line = as_json("job=%s failed", 3, fault=sys.exc_info())
    assert "FileNotFoundError" in line["error"]
    assert "\n" in line["error"]


def test_what_is_worked_on_stands_in_every_line_until_it_is_done():
    with logged_with(request="abc"):
        add_to_log(user=5)
        assert as_json("x")["user"] == 5
        text = logging.Formatter(TEXT_FORMAT, style="{").format(record("x"))
        assert text.endswith("jobs.dispatch: x [request=abc user=5]")
    add_to_log(user=6)
    assert "user" not in as_json("x")
    assert logging.Formatter(TEXT_FORMAT, style="{").format(record("x")).endswith("jobs.dispatch: x")


def test_a_process_for_one_attempt_says_so_in_each_line(monkeypatch):
    monkeypatch.setattr(log_context, "_of_process", {})
    log_always_with(job=3, attempt=2)
    assert as_json("attempt=%s goes on", 77)["attempt"] == 2


@pytest.mark.parametrize("path", ["/invite/eyJ1c2VyIjo3fQ:1w:x-_y/", "/tools/fovea/invite/eyJ1c2VyIjo3fQ:1w:x-_y"])
def test_no_address_of_an_invitation_is_written(path):
    """By the handler that is set up, whatever reason Django has for naming it."""
    handler = settings.LOGGING["handlers"]["stderr"]
    made = record("%s: %s", "Gone", path)
    for name in handler["filters"]:
        import_string(settings.LOGGING["filters"][name]["()"])().filter(made)
    assert made.getMessage() == f"Gone: {path.partition('eyJ')[0]}…{'/' if path.endswith('/') else ''}"


def test_the_status_of_an_answer_is_a_field():
    assert as_json("Not Found: /runs/9/", status_code=404)["status"] == 404


async def answered(*headers):
    """The name that the application's log had, and the one in the answer."""
    named = []

    async def application(scope, receive, send):
        named.append(log_context.log_context()["request"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    told = []

    async def send(message):
        told.append(message)

    await NamedRequests(application)({"type": "http", "headers": headers}, None, send)
    return named[0], dict(told[0]["headers"])[b"x-request-id"].decode()


@pytest.mark.asyncio
async def test_each_request_has_a_name_of_its_own():
    one, other = await answered(), await answered()
    assert one[0] == one[1]
    assert one[0] != other[0]


@pytest.mark.asyncio
async def test_the_name_that_a_proxy_gave_is_kept():
    assert await answered((b"X-Request-ID", b"9c1f-77ab")) == ("9c1f-77ab", "9c1f-77ab")


@pytest.mark.asyncio
@pytest.mark.parametrize("bad", [b"short", b"a" * 65, b"two\nlines-of-it", b'"level":"error"'])
async def test_a_name_that_would_not_stay_on_its_line_is_replaced(bad):
    named, told = await answered((b"x-request-id", bad))
    assert named == told
    assert named.encode() != bad
