"""Bodies of requests, through the real ASGI application: counted before a byte of them is stored."""

from __future__ import annotations

import json
import tempfile

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from config.asgi import application
from dashboard.body_limit import FORM_BYTES, PICTURES_BYTES
from tests.dashboard.makers import import_job, training_job
from tests.dashboard.uploading import SAME_ORIGIN, session_headers

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 20
MIB = 2**20
FORM = "multipart/form-data; boundary=b"


def form_of(n_bytes):
    """A form of one file."""
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    tail = b"\r\n--b--\r\n"
    return head + bytes(n_bytes - len(head) - len(tail)) + tail


class Post(ApplicationCommunicator):
    """One POST request whose body comes in pieces of 1 MiB."""

    def __init__(self, path, headers):
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"layer=conv1",
            "client": ("127.0.0.1", 50_000),
            "server": ("testserver", 80),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
        super().__init__(application, scope)

    async def answer(self, n_bytes):
        body = form_of(n_bytes)
        for begin in range(0, n_bytes, MIB):
            piece = {"type": "http.request", "body": body[begin : begin + MIB], "more_body": begin + MIB < n_bytes}
            await self.send_input(piece)
        start = await self.receive_output(PATIENCE_S)
        body = b""
        more = True
        while more:
            message = await self.receive_output(PATIENCE_S)
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await self.wait(PATIENCE_S)
        return start["status"], {name.lower(): value for name, value in start["headers"]}, body


def post(path, n_bytes, headers, *, told=True):
    length = {"Content-Length": str(n_bytes)} if told else {"Transfer-Encoding": "chunked"}
    return async_to_sync(_post)(path, {**headers, **length}, n_bytes)


async def _post(path, headers, n_bytes):
    return await Post(path, headers).answer(n_bytes)


@pytest.fixture
def spooled(monkeypatch):
    """How many bytes Django was given to keep."""
    kept = []
    real = tempfile.SpooledTemporaryFile

    class Counted(real):
        def write(self, data):
            kept.append(len(data))
            return super().write(data)

    monkeypatch.setattr("django.core.handlers.asgi.tempfile.SpooledTemporaryFile", Counted)
    return kept


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("path", ["/login/", "/api/v1/trainings", "/nowhere", "/api/v1/uploads/"])
def test_a_large_body_is_refused_before_it_is_stored(client, admin_user, spooled, path, told):
    status, headers, body = post(path, FORM_BYTES + 2 * MIB, {**SAME_ORIGIN, "Content-Type": FORM}, told=told)
    assert status == 413
    assert json.loads(body)["error"]["code"] == "request.too_large"
    assert headers[b"connection"] == b"close"
    assert sum(spooled) <= (0 if told else FORM_BYTES)


def test_a_form_of_usual_size_reaches_its_page(client, admin_user):
    status, _, _ = post("/login/", MIB, {**SAME_ORIGIN, "Content-Type": FORM})
    assert status in {400, 403}


@pytest.mark.parametrize("told", [True, False])
def test_pictures_of_a_stranger_are_not_stored(client, admin_user, spooled, told):
    path = "/api/v1/trainings/1/predict"
    status, _, body = post(path, 8 * MIB, {**SAME_ORIGIN, "Content-Type": FORM}, told=told)
    assert status == 401
    assert json.loads(body)["error"]["code"] == "auth.required"
    assert sum(spooled) == 0


@pytest.mark.parametrize("action", ["predict", "explain", "layers", "layer-tiles"])
def test_pictures_may_be_larger_for_those_who_are_signed_in(api, user, action):
    run = training_job(user, import_job(user))
    path = f"/api/v1/trainings/{run.pk}/{action}"
    status, _, body = post(path, 8 * MIB, {**session_headers(api), "Content-Type": FORM})
    # It came as far as the view, which finds no checkpoint.
    assert (status, json.loads(body)["error"]["code"]) == (409, "action.refused")


@pytest.mark.parametrize("told", [True, False])
def test_too_many_pictures_are_refused(api, user, spooled, told):
    path = "/api/v1/trainings/1/predict"
    headers = {**session_headers(api), "Content-Type": FORM}
    status, _, body = post(path, PICTURES_BYTES + 2 * MIB, headers, told=told)
    assert status == 413
    assert json.loads(body)["error"]["code"] == "request.too_large"
    assert sum(spooled) <= (0 if told else PICTURES_BYTES)
