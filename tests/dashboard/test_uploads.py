"""Pieces of uploads, through the real ASGI application: nothing lost, nothing mixed, nothing past what was told."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import stat

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

import dashboard.upload_claims
import dashboard.uploads
from jobs import upload_files
from jobs.models import Upload
from jobs.services import token_create, upload_begin
from jobs.storage import storage
from jobs.upload_files import UploadFile
from tests.dashboard.uploading import Piece, bring_all, session_headers
from tests.surroundings import until
from tests.tus import TUS, metadata

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 2**20


@pytest.fixture
def headers(api):
    return session_headers(api)


@pytest.fixture
def begun(user):
    """An upload of so many bytes, and its path."""

    def begin(size, owner=user):
        upload = upload_begin(owner, "pets.zip", size)
        return upload, f"/api/v1/uploads/{upload.pk}"

    return begin


def noise(n_bytes, seed=0):
    return random.Random(seed).randbytes(n_bytes)  # noqa: S311


def stored(upload):
    return storage().upload_path(upload.pk).read_bytes()


def head(api, path):
    answer = api.head(path, headers=TUS)
    assert answer.status_code == 200
    return int(answer.headers["Upload-Offset"])


def test_a_file_comes_in_pieces(api, headers):
    data = noise(3 * MIB + 17)
    told = {"Upload-Length": str(len(data)), "Upload-Metadata": metadata(filename="Tiere.zip", fingerprint="f-1")}
    made = api.post("/api/v1/uploads/", headers=TUS | told)
    assert made.status_code == 201
    path = made.headers["Location"]
    assert head(api, path) == 0
    for begin, end in ((0, 1), (1, 2 * MIB), (2 * MIB, len(data))):
        status, told, _ = async_to_sync(bring_all)(path, headers, data[begin:end], offset=begin)
        assert (status, told["upload-offset"], told["tus-resumable"]) == (204, str(end), "1.0.0")
        assert told["upload-expires"].endswith("GMT")
        assert head(api, path) == end

    upload = Upload.objects.get()
    assert stored(upload) == data
    assert stat.S_IMODE(storage().upload_path(upload.pk).stat().st_mode) == 0o600
    assert upload.completed_at is not None
    listed = api.get("/api/v1/uploads").json()
    assert [(one["name"], one["offset"], one["complete"], one["fingerprint"]) for one in listed] == [
        ("Tiere.zip", len(data), True, "f-1")
    ]
    assert api.get(path).json() == listed[0]


@pytest.mark.parametrize("n_bytes", [1, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_what_came_before_a_cut_is_kept_and_it_goes_on_from_there(api, headers, begun, n_bytes):
    data = noise(5 * MIB)
    upload, path = begun(len(data))

    async def cut():
        piece = Piece(path, headers)
        for at in range(0, n_bytes, 64 * 1024):
            await piece.bring(data[at : min(at + 64 * 1024, n_bytes)])
        await piece.cut()

    async_to_sync(cut)()
    assert head(api, path) == n_bytes
    assert async_to_sync(bring_all)(path, headers, data[n_bytes:], offset=n_bytes)[0] == 204
    assert stored(upload) == data


def test_a_cut_after_the_last_byte_leaves_a_whole_file(api, headers, begun):
    upload, path = begun(100)

    async def cut():
        piece = Piece(path, headers)
        await piece.bring(b"x" * 100)
        await piece.cut()

    async_to_sync(cut)()
    assert api.get(path).json()["complete"]
    assert head(api, path) == 100
    assert Upload.objects.get(pk=upload.pk).completed_at is not None


def test_two_tabs_cannot_interleave(headers, begun):
    data = noise(4 * MIB)
    upload, path = begun(len(data))

    async def both():
        first = Piece(path, headers)
        await first.bring(data[: 2 * MIB])
        await until_size(upload, 2 * MIB)
        second = await bring_all(path, headers, b"y" * MIB, offset=2 * MIB)
        await first.bring(data[2 * MIB :], more=False)
        return second, await first.answer()

    second, first = async_to_sync(both)()
    assert (second[0], second[2]["error"]["code"]) == (423, "upload.locked")
    assert first[0] == 204
    assert stored(upload) == data


async def until_size(upload, n_bytes):
    path = storage().upload_path(upload.pk)
    await asyncio.to_thread(until, lambda: path.exists() and path.stat().st_size >= n_bytes)


def test_another_process_holds_the_lock_too(headers, begun):
    upload, path = begun(10)
    held = UploadFile(upload.pk)
    try:
        assert async_to_sync(bring_all)(path, headers, b"0123456789")[0] == 423
    finally:
        held.close()
    assert async_to_sync(bring_all)(path, headers, b"0123456789")[0] == 204


def test_a_newer_request_takes_over_from_one_that_went_silent(headers, begun, monkeypatch):
    monkeypatch.setattr(dashboard.upload_claims, "SILENT_AFTER_S", 0.0)
    data = noise(2 * MIB)
    upload, path = begun(len(data))

    async def both():
        first = Piece(path, headers)
        await first.bring(data[:MIB])
        await until_size(upload, MIB)
        second = await bring_all(path, headers, data[MIB:], offset=MIB)
        return await first.answer(), second

    first, second = async_to_sync(both)()
    assert (first[0], second[0]) == (423, 204)
    assert stored(upload) == data


def test_a_client_that_says_nothing_more_is_let_go(headers, begun, monkeypatch):
    monkeypatch.setattr(dashboard.uploads, "STALLED_AFTER_S", 0.05)
    upload, path = begun(100)

    async def stall():
        piece = Piece(path, headers)
        await piece.bring(b"x" * 40)
        return await piece.answer()

    status, told, body = async_to_sync(stall)()
    assert (status, told["connection"], body["error"]["code"]) == (408, "close", "upload.stalled")
    assert stored(upload) == b"x" * 40
    assert async_to_sync(bring_all)(path, headers, b"y" * 60, offset=40)[0] == 204


@pytest.mark.parametrize("offset", [0, 39, 41])
def test_a_piece_begins_where_the_last_one_ended(headers, begun, offset):
    upload, path = begun(100)
    async_to_sync(bring_all)(path, headers, b"x" * 40)
    status, _, body = async_to_sync(bring_all)(path, headers, b"y" * 10, offset=offset)
    assert (status, body["error"]["code"]) == (409, "upload.offset")
    assert "40" in body["error"]["message"]
    assert stored(upload) == b"x" * 40


def test_nothing_is_written_past_what_was_announced(api, headers, begun):
    upload, path = begun(2 * MIB)
    told = {"Content_Length": str(3 * MIB)}
    status, _, body = async_to_sync(bring_all)(path, headers, b"x" * 3 * MIB, **told)
    assert (status, body["error"]["code"]) == (413, "upload.too_long")
    assert stored(upload) == b""

    async def without_a_length():
        piece = Piece(path, headers)
        for _ in range(2):
            await piece.bring(b"x" * MIB)
        await piece.bring(b"x", more=False)
        return await piece.answer()

    assert async_to_sync(without_a_length)()[0] == 413
    assert len(stored(upload)) < 2 * MIB
    assert not api.get(path).json()["complete"]


def test_a_full_disk_keeps_what_is_there_and_says_how_much_is_missing(headers, begun, monkeypatch):
    data = noise(4 * MIB)
    upload, path = begun(len(data))
    room = 2 * MIB + 5
    write = os.write

    def little_room(fd, block):
        free = room - os.fstat(fd).st_size
        if free <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, block[:free])

    with monkeypatch.context() as patch:
        patch.setattr(upload_files.os, "write", little_room)
        status, _, body = async_to_sync(bring_all)(path, headers, data)
    assert (status, body["error"]["code"]) == (507, "disk.full")
    assert f"{len(data) - room:,} bytes" in body["error"]["message"]
    assert stored(upload) == data[:room]
    assert async_to_sync(bring_all)(path, headers, data[room:], offset=room)[0] == 204
    assert stored(upload) == data


def test_the_disk_is_looked_at_before_each_piece_however_small(headers, begun, settings):
    upload, path = begun(10)
    assert async_to_sync(bring_all)(path, headers, b"01234")[0] == 204
    settings.DISK_RESERVE_GIB = 1e6
    status, _, body = async_to_sync(bring_all)(path, headers, b"56789", offset=5)
    assert (status, body["error"]["code"]) == (507, "disk.full")
    assert stored(upload) == b"01234"


def test_who_is_locked_out_meanwhile_brings_no_more(headers, begun, user, monkeypatch):
    monkeypatch.setattr(dashboard.uploads, "LOOK_EVERY_BYTES", MIB)
    upload, path = begun(8 * MIB)

    async def brought():
        piece = Piece(path, headers)
        await piece.bring(b"x" * MIB)
        await until_size(upload, MIB)
        user.is_active = False
        await user.asave()
        await piece.bring(b"x" * MIB)
        return await piece.answer()

    status, _, body = async_to_sync(brought)()
    assert (status, body["error"]["code"]) == (413, "upload.refused")
    assert async_to_sync(bring_all)(path, headers, b"x", offset=2 * MIB)[0] == 401


def test_the_disk_is_looked_at_while_bytes_come(headers, begun, monkeypatch, settings):
    monkeypatch.setattr(dashboard.uploads, "LOOK_EVERY_BYTES", MIB)
    upload, path = begun(4 * MIB)

    async def filling():
        piece = Piece(path, headers)
        await piece.bring(b"x" * MIB)
        await until_size(upload, MIB)
        settings.DISK_RESERVE_GIB = 1e6
        await piece.bring(b"x" * MIB)
        return await piece.answer()

    status, _, body = async_to_sync(filling)()
    assert (status, body["error"]["code"]) == (507, "disk.full")
    assert "are missing" in body["error"]["message"]
    assert len(stored(upload)) >= MIB


def test_removing_an_upload_ends_who_brings_it(api, headers, begun):
    upload, path = begun(4 * MIB)

    def remove():
        try:
            return api.delete(path).status_code
        finally:
            connections.close_all()  # those of this thread, which the client leaves open

    async def removed():
        piece = Piece(path, headers)
        await piece.bring(b"x" * 2 * MIB)
        await until_size(upload, MIB)
        return await asyncio.to_thread(remove), (await piece.answer())[0]

    status, broken = async_to_sync(removed)()
    assert status == 204
    assert broken in {404, 423}
    assert not storage().upload_path(upload.pk).exists()
    assert async_to_sync(bring_all)(path, headers, b"x")[0] == 404


# Who may.


def refusals(path, headers, **changes):
    status, told, body = async_to_sync(bring_all)(path, headers, b"x", **changes)
    return status, body["error"]["code"] if body else "", told


def test_pieces_ask_who_is_calling(headers, begun, other_user, user):
    upload, path = begun(10)
    host = {"Host": "testserver"}
    _, reader = token_create(user, "reader", scope="read")
    _, writer = token_create(user, "writer")
    _, others = token_create(other_user, "writer")

    def bearer(secret):
        return {**host, "Authorization": f"Bearer {secret}"}

    assert refusals(path, host)[:2] == (401, "auth.required")
    assert refusals(path, bearer("fovea_no") | {"Cookie": headers["Cookie"]})[:2] == (401, "auth.required")
    assert refusals(path, bearer(reader))[:2] == (403, "auth.forbidden")
    assert refusals(path, bearer(others))[:2] == (404, "upload.missing")
    assert refusals(path, headers, X_CSRFToken=None)[:2] == (403, "auth.csrf")
    assert refusals(path, headers, X_CSRFToken="z" * 32)[:2] == (403, "auth.csrf")
    assert refusals(path, headers, Origin="http://elsewhere.example")[:2] == (403, "auth.csrf")
    assert not storage().upload_path(upload.pk).exists()
    assert refusals(path, bearer(writer))[0] == 204


def test_the_server_answers_to_its_names_alone_and_by_https_where_told(headers, begun, settings):
    _, path = begun(10)
    settings.ALLOWED_HOSTS = ["fovea.lab"]
    assert refusals(path, headers)[0] == 400
    settings.ALLOWED_HOSTS = ["testserver"]
    assert refusals(path, headers, Origin="http://testserver")[0] == 204


def test_a_piece_by_plain_http_is_sent_to_https(headers, begun, settings, monkeypatch):
    """``SECURE_SSL_REDIRECT`` is read when the application is made."""
    from config import asgi

    _, path = begun(10)
    settings.SECURE_SSL_REDIRECT = True
    monkeypatch.setattr(
        "tests.dashboard.uploading.application", dashboard.uploads.UploadPieces(asgi.get_asgi_application())
    )
    status, _, told = refusals(path, headers)
    assert status == 301
    assert told["location"].startswith("https://")


def test_every_way_to_another_s_upload_is_closed(api, headers, begun, other_user):
    upload, path = begun(10, owner=other_user)
    UploadFile(upload.pk).close()
    assert api.get("/api/v1/uploads").json() == []
    for method in ("get", "head", "delete"):
        assert getattr(api, method)(path, headers=TUS).status_code == 404
    assert refusals(path, headers)[0] == 404
    assert Upload.objects.filter(pk=upload.pk).exists()


# The protocol.


def test_another_version_of_the_protocol_is_refused(api, headers, begun):
    _, path = begun(10)
    for method, where in (("post", "/api/v1/uploads/"), ("head", path)):
        for spoken in ({}, {"Tus-Resumable": "0.2.2"}):
            answer = getattr(api, method)(where, headers=spoken)
            assert (answer.status_code, answer.headers["Tus-Version"]) == (412, "1.0.0")
    assert refusals(path, headers, Tus_Resumable=None)[:2] == (412, "upload.version")
    assert refusals(path, headers, Content_Type="application/json")[:2] == (415, "upload.content_type")
    assert refusals(path, headers, Upload_Offset="-1")[:2] == (400, "upload.header")
    assert refusals(path, headers, Upload_Offset=None)[:2] == (400, "upload.header")
