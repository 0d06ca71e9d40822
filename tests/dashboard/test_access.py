"""No route, operation or socket is open by accident: each is walked, and each that is public stands in a table here."""

from __future__ import annotations

import json
import re

import pytest
from asgiref.sync import async_to_sync
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.api.root import api
from dashboard.routing import socket_patterns
from jobs.models import Artifact, Job, JobInput
from jobs.services import token_create, upload_begin
from jobs.upload_files import UploadFile
from tests.dashboard.makers import checkpoint_of, classification_job, evaluation_job, import_job, training_job
from tests.dashboard.sockets import Socket, connected, session_of
from tests.dashboard.uploading import Piece, session_headers
from tests.kits.exported import export_job
from tests.tus import TUS

PUBLIC = {
    "login/": {200},
    "setup/": {302},
    "invite/<str:token>/": {410},
    "healthz": {200, 405},
    "readyz": {200, 405},
}
"""Route: how it answers an anonymous GET and POST."""

ID = re.compile(r"[<{](?:int:|str:)?([a-z]+_id)[>}]")
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
    "uuid": "GPU-1",
    "run_id": "1",
    "path": "model.onnx",
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


def call(client, method, path, *, body="{}", **more):
    return client.generic(method.upper(), path, body, content_type="application/json", **more)


def filled(route, **values):
    path = route
    for name, value in (VALUES | values).items():
        for converter in ("int:", "str:", "slug:", "path:", ""):
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


@pytest.fixture
def parts(other_user, user):
    """A private evaluation, classification and export of a run that everybody sees; its dataset is private too."""
    dataset = import_job(other_user, private=True, title="A secret set")
    run = training_job(other_user, dataset, status="succeeded", title="An open run", n_events=3)
    JobInput.objects.create(job=run, artifact=Artifact.objects.get(made_by=dataset), role="dataset")
    checkpoint = checkpoint_of(run)
    made = (
        evaluation_job(other_user, run, checkpoint, private=True),
        classification_job(other_user, run, checkpoint, private=True),
        export_job(other_user, run, checkpoint, private=True),
    )
    Job.objects.filter(pk__in=[part.pk for part in made]).update(title="A secret part")
    return run, dataset, made


JOB_IDS = ("job_id", "run_id")
"""Names under which routes take a job."""


def test_every_id_of_a_route_is_walked():
    """An id that is new belongs into a test of who may see what it names, then here."""
    names = {name for route in [*page_routes(), *(route for _, route in operations())] for name in ID.findall(route)}
    assert names == {*JOB_IDS, "sample_id", "prediction_id", "upload_id", "user_id", "token_id"}


def about_jobs(routes):
    return sorted(route for route in routes if set(ID.findall(route)) & set(JOB_IDS))


@pytest.mark.parametrize("route", about_jobs(page_routes()))
def test_a_private_job_is_not_there_for_others_on_pages(api, hidden, parts, route):
    for job in (*hidden, *parts[2]):
        for answer in (api.get(filled(route, **every_id(job))), api.post(filled(route, **every_id(job)))):
            assert answer.status_code in {404, 405}
            assert job.title not in answer.content.decode()


@pytest.mark.parametrize(
    ("method", "route"), sorted(each for each in operations() if set(ID.findall(each[1])) & set(JOB_IDS))
)
def test_a_private_job_is_not_there_for_others_in_the_api(api, hidden, parts, method, route):
    for job in (*hidden, *parts[2]):
        path = filled(route, **every_id(job)) + QUERIES.get(route, "")
        answer = call(api, method, path, body=json.dumps(BODIES.get(route, {})))
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"


QUERIES = {
    "/api/v1/trainings/{int:run_id}/layer-tiles": "?layer=conv1",
    "/api/v1/trainings/{int:run_id}/comparison": "?a=export:7&b=export:8",
    "/api/v1/trainings/{int:run_id}/comparison.csv": "?a=export:7&b=export:8",
}
BODIES = {
    "/api/v1/trainings/{int:job_id}/exports": {"targets": [{"backend": {"name": "pytorch"}}]},
    "/api/v1/exports/{int:job_id}/override": {"reason": "because"},
    "/api/v1/jobs/{int:job_id}/mend": {"fix": "again"},
}
"""What an operation cannot do without."""


def every_id(job):
    return dict.fromkeys(JOB_IDS, job.pk)


def test_an_open_run_tells_nothing_of_what_is_private_about_it(api, parts):
    run, dataset, made = parts
    checkpoint = Artifact.objects.get(kind="checkpoint").pk
    post = {"content_type": "application/json"}
    sample = json.dumps({"sample": {"dataset": dataset.pk, "id": 1}})
    for action in ("predict", "explain", "layers", "layer-tiles?layer=conv1"):
        answer = api.post(f"/api/v1/trainings/{run.pk}/{action}", data=sample, **post)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), action
    for wish in ({}, {"dataset": dataset.pk}, {"checkpoint": checkpoint}):
        answer = api.post(f"/api/v1/trainings/{run.pk}/evaluations", data=json.dumps(wish), **post)
        assert answer.status_code == 404, wish
    assert api.get(f"/api/v1/trainings/{run.pk}/evaluations").json() == []
    wish = {"targets": [{"backend": {"name": "pytorch"}}]}
    for more in ({}, {"dataset": dataset.pk}):
        answer = api.post(f"/api/v1/trainings/{run.pk}/exports", data=json.dumps(wish | more), **post)
        assert answer.status_code == 404, more
    assert api.get(f"/api/v1/trainings/{run.pk}/classifications").json() == []
    assert api.get(f"/api/v1/trainings/{run.pk}/exports").json() == []
    assert api.get(f"/api/v1/jobs?part_of={run.pk}").json() == []
    assert api.get("/api/v1/jobs?verb=evaluate").json() == []
    paths = [
        f"/runs/{run.pk}/{page}"
        for page in (
            "",
            "regions",
            "evaluation/",
            "try/",
            "classify/",
            "export/",
            "compare/",
            "compare/split",
            "try/layers/",
        )
    ]
    paths += [f"/runs/{run.pk}/{page}/?job={part.pk}" for page in ("evaluation", "classify") for part in made]
    paths += [
        f"/runs/{run.pk}/try/?dataset={dataset.pk}&sample=1",
        f"/runs/{run.pk}/evaluation/images/?job={made[0].pk}",
    ]
    for path in (*paths, f"/api/v1/jobs/{run.pk}", f"/datasets/new/?again={dataset.pk}"):
        text = api.get(path, headers={"HX-Request": "true"}).content.decode()
        assert not {word for word in ("A secret set", "A secret part", "c.png") if word in text}, path


def test_an_upload_of_another_is_not_there_for_anybody(api, admin_user, other_user, client_class):
    """Not for administrators either, whichever way it is named."""
    upload = upload_begin(other_user, "secret.zip", 1)
    run = training_job(other_user, import_job(other_user), status="succeeded")
    checkpoint_of(run)
    UploadFile(upload.pk).append(b"x")
    administrator = client_class()
    administrator.force_login(admin_user)
    by_upload = {"kind": "upload", "upload": upload.pk}
    by_list = {"kind": "lists", "train": {"upload": upload.pk}}
    for browser in (api, administrator):
        for method, route in operations():
            if "upload_id" in route and method != "patch":
                answer = call(browser, method, filled(route, upload_id=upload.pk), headers=TUS)
                assert answer.status_code == 404, route
        assert browser.get("/api/v1/uploads").json() == []
        for source in (by_upload, by_list):
            for path, wish in (
                ("/api/v1/datasets", {"name": "mine", "source": source}),
                ("/api/v1/classifications", {"run": run.pk, "source": source}),
            ):
                answer = browser.post(path, data=json.dumps(wish), content_type="application/json")
                # Lists are refused as a whole where the server offers no folder.
                assert answer.status_code in ({404} if source is by_upload else {404, 409}), path
        text = browser.get(f"/datasets/new/?upload={upload.pk}").content.decode()
        assert "secret.zip" not in text


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
