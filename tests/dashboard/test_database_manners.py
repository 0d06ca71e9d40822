"""Pages and API while the database cannot do what it is asked for, and forms that are sent twice."""

from __future__ import annotations

import re

import pytest
from django.db import OperationalError, connection, connections
from django.test import Client

from jobs.models import Job
from jobs.services import job_cancel
from tests.dashboard.makers import import_job, record, training_job
from tests.dashboard.test_pages_training import filled_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def browser(user):
    browser = Client(raise_request_exception=False)
    browser.force_login(user)
    return browser


@pytest.fixture
def away(monkeypatch):
    """No connection can be had from now on."""

    def refuse(*_):
        raise OperationalError("connection refused")

    def leave():
        connection.close()
        monkeypatch.setattr(type(connections["default"]), "connect", refuse)

    return leave


@pytest.mark.parametrize("path", ["/", "/runs/1/", "/login/", "/nowhere", "/setup/"])
def test_every_page_says_so_and_looks_again(browser, away, path):
    away()
    answer = browser.get(path)
    text = answer.content.decode()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert 'data-error-code="database.unavailable"' in text
    assert '<meta http-equiv="refresh" content="5">' in text


def test_what_was_sent_is_not_sent_again_by_itself(browser, away):
    away()
    text = browser.post("/runs/new/", {"dataset": "1"}).content.decode()
    assert "http-equiv" not in text
    assert "send it again" in text


def test_a_fragment_gets_a_banner_and_the_api_words(browser, away):
    away()
    banner = browser.get("/", headers={"HX-Request": "true"}).content.decode()
    assert banner.startswith('<div class="banner banner-error"')
    assert browser.get("/api/v1/jobs").json()["error"]["code"] == "database.unavailable"
    assert browser.get("/healthz").status_code == 200


def test_another_error_of_the_database_is_still_ours(browser, monkeypatch):
    def fail(*_args, **_kwargs):
        with connection.cursor() as cursor:
            cursor.execute("SELECT x FROM nowhere")

    monkeypatch.setattr("dashboard.api.jobs.jobs_of", fail)
    assert browser.get("/api/v1/jobs").status_code == 500


def test_a_form_that_is_sent_twice_starts_one_run(user):
    dataset = import_job(user)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    page = browser.get("/runs/new").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    form = filled_in(user, dataset, title="Once") | {"csrfmiddlewaretoken": token}

    def send(**changes):
        return browser.post("/runs/new", form | changes).url

    first = send()
    assert send() == first
    assert send(title="Other") != first
    job_cancel(user, Job.objects.get(title="Once").pk)
    assert send() != first


def test_a_key_in_a_header_makes_one_job_of_two_requests(api):
    def send(key):
        wish = {"name": "Digits", "source": {"kind": "sample", "name": "digits"}}
        headers = {"Idempotency-Key": key}
        return api.post("/api/v1/datasets", wish, content_type="application/json", headers=headers).json()["id"]

    assert send("a") == send("a") != send("b")


def test_a_key_that_is_too_long_is_refused_and_nothing_is_made(api):
    wish = {"name": "Digits", "source": {"kind": "sample", "name": "digits"}}

    def send(key):
        return api.post("/api/v1/datasets", wish, content_type="application/json", headers={"Idempotency-Key": key})

    refused = send("k" * 201)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "request.invalid")
    assert "201 characters" in refused.json()["error"]["fields"]["Idempotency-Key"]
    assert not Job.objects.exists()
    assert send("k" * 200).status_code == 201


def test_no_connection_is_kept_while_a_file_is_sent(api, user):
    run = training_job(user, import_job(user))
    record(run, 3)
    answer = api.get(f"/api/v1/jobs/{run.pk}/curves.csv")
    assert (answer.status_code, answer.streaming) == (200, True)
    assert connection.connection is None
