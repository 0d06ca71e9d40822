"""No route, operation or socket is open by accident: each is walked, and each that is public stands in a table here."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.api.root import api
from dashboard.routing import socket_patterns
from jobs.services import token_create
from tests.dashboard.makers import import_job, training_job
from tests.dashboard.sockets import Socket, connected, session_of
from tests.dashboard.uploading import Piece, session_headers

PUBLIC = {
    "login/": {200},
    "setup/": {302},
    "invite/<str:token>/": {410},
    "healthz": {200, 405},
    "readyz": {200, 405},
}
"""Route: how it answers an anonymous GET and POST."""

READING = {"get", "head", "options"}

VALUES = {
    "job_id": "1",
    "user_id": "1",
    "token_id": "1",
    "attempt": "1",
    "token": "nothing",
    "sample_id": "1",
    "upload_id": "1",
    "prediction_id": "1",
    "run_id": "1",
}


def page_routes(resolver=None, prefix=""):
    """Every route but those of the API's own operations, which ``operations`` lists."""
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            if entry.app_name != "ninja":
                yield from page_routes(entry, route)
        elif isinstance(entry, URLPattern):
            yield route


def operations():
    for bound in api._get_bound_routers():
        for path, view in bound.path_operations.items():
            for operation in view.operations:
                for method in operation.methods:
                    yield method.lower(), f"/api/v1/{bound.prefix.strip('/')}{path}".replace("//", "/")


def call(client, method, path, **more):
    return client.generic(method.upper(), path, "{}", content_type="application/json", **more)


def filled(route, **values):
    path = route
    for name, value in (VALUES | values).items():
        for converter in ("int:", "str:", "slug:", ""):
            path = path.replace(f"<{converter}{name}>", str(value)).replace(f"{{{converter}{name}}}", str(value))
    assert "<" not in path, f"give a value for {route} in VALUES"
    assert "{" not in path, f"give a value for {route} in VALUES"
    return "/" + path.lstrip("/")


def test_there_is_something_to_walk():
    assert len(list(page_routes())) > 10
    assert len(list(operations())) > 25
    assert len(socket_patterns) == 2


@pytest.mark.parametrize("route", sorted(set(page_routes())))
def test_a_page_sends_an_anonymous_visitor_to_sign_in(client, admin_user, route):
    path = filled(route)
    answers = [client.get(path), client.post(path)]
    if route in PUBLIC:
        assert {answer.status_code for answer in answers} <= PUBLIC[route]
    else:
        for answer in answers:
            assert answer.status_code == 302
            assert answer.headers["Location"].startswith("/login/?next=")


def test_the_table_of_public_routes_names_no_other():
    assert set(PUBLIC) <= set(page_routes())


@pytest.mark.parametrize(("method", "route"), sorted(operations()))
def test_an_operation_asks_who_is_calling(client, user, method, route):
    answer = call(client, method, filled(route))
    assert answer.status_code == 401
    assert method == "head" or answer.json()["error"]["code"] == "auth.required"
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "route"), sorted(operations()))
def test_a_token_that_is_not_valid_is_refused_even_beside_a_session(api, method, route):
    answer = call(api, method, filled(route), headers={"Authorization": "Bearer fovea_no"})
    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "route"), sorted(each for each in operations() if each[0] not in READING))
def test_a_token_that_may_only_read_changes_nothing(client, user, method, route):
    _, secret = token_create(user, "reader", scope="read")
    answer = call(client, method, filled(route), headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "auth.forbidden"


@pytest.mark.parametrize(("method", "route"), sorted(each for each in operations() if each[0] not in READING))
def test_a_session_needs_its_csrf_token_to_change_something(user, method, route, client_class):
    browser = client_class(enforce_csrf_checks=True)
    browser.force_login(user)
    answer = call(browser, method, filled(route))
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "auth.csrf"


@pytest.fixture
def client_class():
    from django.test import Client

    return Client


@pytest.fixture
def hidden(other_user, admin_user):
    """Two private jobs of somebody else."""
    dataset = import_job(other_user, private=True, title="A secret set")
    return dataset, training_job(other_user, dataset, private=True, title="A secret run", n_events=3)


@pytest.mark.parametrize("route", sorted(route for route in page_routes() if "job_id" in route))
def test_a_private_job_is_not_there_for_others_on_pages(api, hidden, route):
    for job in hidden:
        for answer in (api.get(filled(route, job_id=job.pk)), api.post(filled(route, job_id=job.pk))):
            assert answer.status_code in {404, 405}
            assert job.title not in answer.content.decode()


@pytest.mark.parametrize(("method", "route"), sorted(each for each in operations() if "job_id" in each[1]))
def test_a_private_job_is_not_there_for_others_in_the_api(api, hidden, method, route):
    for job in hidden:
        answer = call(api, method, filled(route, job_id=job.pk))
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"


def test_a_private_job_is_not_there_for_others_in_bodies_and_lists(api, hidden):
    dataset, run = hidden
    body = {"dataset": dataset.pk, "model": {"name": "lenet5"}, "options": {"image_px": 32}}
    post = {"content_type": "application/json"}
    for path in ("/api/v1/trainings", "/api/v1/trainings/spec", "/api/v1/trainings/previews"):
        assert api.post(path, data=json.dumps(body), **post).status_code == 404
    assert api.get(f"/api/v1/trainings/defaults?dataset={dataset.pk}").status_code == 404
    assert api.post("/api/v1/jobs/delete", data=json.dumps({"ids": [run.pk]}), **post).status_code == 404
    assert api.get("/api/v1/jobs").json() == []
    assert api.get("/api/v1/datasets").json() == []


def test_a_private_job_is_not_there_for_others_in_a_page_s_query(api, hidden):
    dataset, run = hidden
    for path in (
        f"/rows/?ids={dataset.pk},{run.pk}",
        f"/jobs/delete?ids={run.pk}",
        f"/runs/new?dataset={dataset.pk}",
        f"/runs/new?again={run.pk}",
        "/",
        "/datasets/",
    ):
        answer = api.get(path)
        assert answer.status_code in {200, 404}
        text = answer.content.decode()
        assert dataset.title not in text
        assert run.title not in text


async def piece_answer(path, headers):
    piece = Piece(path, {"Host": "testserver", **headers})
    await piece.bring(b"x", more=False)
    return await piece.answer()


def taken_in_front():
    """Operations whose requests do not come to Django as they are."""
    return [route for method, route in operations() if method == "patch" and "upload" in route]


def test_there_is_one_operation_in_front_of_django():
    assert taken_in_front() == ["/api/v1/uploads/{upload_id}"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("route", taken_in_front())
def test_what_is_taken_in_front_of_django_asks_who_is_calling(api, user, route):
    _, reader = token_create(user, "reader", scope="read")
    session = session_headers(api)
    without_csrf = {name: value for name, value in session.items() if name != "X-CSRFToken"}
    for headers, status, code in (
        ({}, 401, "auth.required"),
        ({"Authorization": "Bearer fovea_no", **session}, 401, "auth.required"),
        ({"Authorization": f"Bearer {reader}"}, 403, "auth.forbidden"),
        (without_csrf, 403, "auth.csrf"),
        (session | {"Origin": "http://elsewhere.example"}, 403, "auth.csrf"),
        (session, 404, "upload.missing"),
    ):
        found, _, body = async_to_sync(piece_answer)(filled(route), headers)
        assert (found, body["error"]["code"]) == (status, code)


async def close_code(path, *headers):
    async with connected(path, *headers) as socket:
        return await socket.next()


def bearer(secret):
    return (b"authorization", f"Bearer {secret}".encode())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pattern", socket_patterns, ids=lambda pattern: str(pattern.pattern))
def test_a_socket_closes_at_once_for_an_anonymous_visitor(user, pattern):
    path = filled(str(pattern.pattern))
    assert async_to_sync(close_code)(path) == 4401
    assert async_to_sync(close_code)(path, bearer("fovea_no")) == 4401


@pytest.mark.django_db(transaction=True)
def test_the_socket_of_a_private_job_is_not_there_for_others(user, hidden):
    _, secret = token_create(user, "reader", scope="read")
    assert async_to_sync(close_code)(f"/ws/jobs/{hidden[1].pk}/", bearer(secret)) == 4404


HOST = (b"host", b"testserver")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "origin",
    [
        (HOST, (b"origin", b"http://elsewhere.example")),
        (HOST, (b"origin", b"http://testserver:81")),
        (HOST, (b"origin", b"null")),
        (HOST,),
    ],
)
@pytest.mark.parametrize("pattern", socket_patterns, ids=lambda pattern: str(pattern.pattern))
def test_a_socket_of_another_site_is_refused(api, pattern, origin):
    async def opens():
        socket = Socket(filled(str(pattern.pattern)), session_of(api), origin=origin)
        opened = await socket.open()
        await socket.leave()
        return opened

    assert not async_to_sync(opens)()
