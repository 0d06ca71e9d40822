from __future__ import annotations

import re

import pytest
from django.test import Client, RequestFactory
from django.urls import path

import config.urls
from config.env import BASE_DIR
from dashboard import errors
from wire.errors import ActionRefused, DiskFull, NotFound, SpecInvalid


def refuse(request, kind):
    raise {
        "refused": ActionRefused("It <b>runs</b>.", hint="Cancel it."),
        "missing": NotFound("There is no run #7.", hint="Look at the home page."),
        "invalid": SpecInvalid("No such model.", hint="Choose one."),
        "full": DiskFull("The disk is full.", hint="Delete something."),
        "bug": ZeroDivisionError("secret detail"),
    }[kind]


urlpatterns = [path("raise/<str:kind>", refuse), path("api/raise/<str:kind>", refuse), *config.urls.urlpatterns]
handler400 = config.urls.handler400
handler403 = config.urls.handler403
handler404 = config.urls.handler404
handler500 = config.urls.handler500


@pytest.fixture
def browser(user, settings):
    settings.ROOT_URLCONF = __name__
    browser = Client(raise_request_exception=False)
    browser.force_login(user)
    return browser


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("refused", 409, "action.refused"),
        ("missing", 404, "not_found"),
        ("invalid", 400, "spec.invalid"),
        ("full", 507, "disk.full"),
        ("bug", 500, "unexpected"),
    ],
)
def test_an_error_is_a_page_with_a_way_back_and_in_the_api_json(browser, kind, status, code):
    page = browser.get(f"/raise/{kind}")
    text = page.content.decode()
    assert page.status_code == status
    assert f'data-error-code="{code}"' in text
    assert 'href="/"' in text
    assert "Traceback" not in text
    assert "secret detail" not in text
    assert "<b>runs" not in text

    answer = browser.get(f"/api/raise/{kind}")
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert set(answer.json()["error"]) == {"code", "message", "hint", "fields"}
    assert "secret detail" not in answer.content.decode()


def test_a_fragment_gets_a_banner_alone(browser):
    text = browser.get("/raise/refused", headers={"HX-Request": "true"}).content.decode()
    assert text.startswith('<div class="banner banner-error"')


def test_what_is_not_there_is_said_to_everybody(client, browser):
    assert 'data-error-code="not_found"' in client.get("/nowhere").content.decode()
    assert client.get("/api/v1/nowhere").json()["error"]["code"] == "not_found"
    assert browser.get("/nowhere").status_code == 404


def test_a_form_from_elsewhere_is_refused(user):
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/login/", {"username": "ada", "password": "x"})
    assert answer.status_code == 403
    assert 'data-error-code="auth.csrf"' in answer.content.decode()


def test_a_host_that_is_not_ours_is_a_page_too(browser, settings):
    settings.ALLOWED_HOSTS = ["testserver"]
    answer = browser.get("/login/", headers={"Host": "elsewhere.example"})
    assert answer.status_code == 400
    assert "Traceback" not in answer.content.decode()


def test_a_wrong_method_is_json_in_the_api(api):
    answer = api.put("/api/v1/jobs")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "request.method"
    assert answer.headers["Allow"] == "GET"


def test_the_tree_at_the_top_lists_every_refusal():
    classes = {cls.__name__: (str(cls.status), cls.code) for cls in errors.Refusal.__subclasses__()}
    told = {name: (status, code) for name, status, code in re.findall(r"── (\w+)\s+(\d+)\s+(\S+)", errors.__doc__)}
    assert told == classes


def test_every_refusal_is_documented():
    text = (BASE_DIR / "docs/api.md").read_text()
    for cls in errors.Refusal.__subclasses__():
        assert f"`{cls.code}`" in text


def test_the_page_of_a_broken_server_needs_no_database(django_assert_num_queries):
    answer = errors.server_error(RequestFactory().get("/"))
    assert answer.status_code == 500
    assert b"Something went wrong" in answer.content
