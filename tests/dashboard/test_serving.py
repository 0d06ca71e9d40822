"""The client of the service of pictures and trained models."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard import serving
from jobs.models import Artifact
from jobs.storage import storage
from tests.kits.serving import picture_bytes, write_dataset
from wire.errors import CheckpointMissing, DatasetMissing, ImageInvalid, NotFound, ServeUnavailable
from wire.serving import MAX_REQUEST_BYTES

pytestmark = pytest.mark.slow


@pytest.fixture
def dataset_dir():
    path = storage().job(1).dataset_dir
    write_dataset(path, [("train", 0, picture_bytes(16, 16)), ("train", 1, picture_bytes(300, 200)), ("val", 0, b"?")])
    return path


@pytest.fixture
def checkpoint():
    return Artifact(made_by_id=2, kind="checkpoint", name="step-1", path="artifacts/none.pt", sha256="0" * 64, bytes=1)


@pytest.fixture
def answering(tmp_path, settings):
    """A service that says what it is told to, or nothing."""
    settings.SERVE_SOCKET = tmp_path / "serve.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(settings.SERVE_SOCKET))
    listening.listen()
    threads, connections = [], []

    def answer(text):
        def run():
            connection, _ = listening.accept()
            connections.append(connection)
            received = b""
            while not received.endswith(b"}"):  # head and body come one after the other
                received += connection.recv(65536)
            if text is not None:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_RDWR)

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield answer
    for thread in threads:
        thread.join()
    for each in (*connections, listening):
        each.close()


@pytest.fixture
def _impatient(monkeypatch):
    monkeypatch.setattr(serving, "CONNECT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(serving, "ANSWER_TIMEOUT_S", 0.2)


def test_pictures(serve, dataset_dir):
    small, large = (serving.picture(dataset_dir, sample, px=128) for sample in (1, 2))

    assert (small.mime, large.mime) == ("image/png", "image/webp")
    assert small.data.startswith(b"\x89PNG")
    assert large.data.startswith(b"RIFF")


@pytest.mark.usefixtures("serve")
def test_errors_come_back_as_what_they_were(dataset_dir, checkpoint, tmp_path):
    with pytest.raises(NotFound, match="no image 9"):
        serving.picture(dataset_dir, 9, px=64)
    with pytest.raises(DatasetMissing):
        serving.picture(dataset_dir.parent / "other", 1, px=64)
    with pytest.raises(ImageInvalid) as refused:
        serving.picture(dataset_dir, 3, px=64)
    with pytest.raises(NotFound, match="not below"):
        serving.picture(tmp_path, 1, px=64)
    with pytest.raises(CheckpointMissing):
        serving.predict(checkpoint, [serving.SampleRef(dataset_dir, 1)])

    assert "JPEG" in refused.value.hint


def test_ten_at_once(serve, dataset_dir):
    with ThreadPoolExecutor(10) as threads:
        pictures = list(threads.map(lambda _: serving.picture(dataset_dir, 2, px=128), range(10)))

    assert len(set(pictures)) == 1


def test_one_that_is_started_again_is_waited_for(serve, dataset_dir, monkeypatch):
    monkeypatch.setattr(serving, "CONNECT_TIMEOUT_S", 30.0)
    serve.kill()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(serving.picture, dataset_dir, 1, px=64)
        serve.start()

        assert asked.result().mime == "image/png"


@pytest.mark.usefixtures("_impatient")
def test_one_that_is_gone_says_where_to_look(serve, dataset_dir):
    serve.kill()

    with pytest.raises(ServeUnavailable, match="does not answer") as gone:
        serving.picture(dataset_dir, 1, px=64)

    assert str(storage().root / "logs" / "serve.log") in gone.value.hint


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "did not answer within"),
        (b"", "does not answer"),
        (b"nonsense\r\n\r\n", "does not answer"),
        (b"HTTP/1.0 500 Broken\r\n\r\n<html>", "cannot be read"),
    ],
)
def test_an_answer_that_is_none(answering, dataset_dir, text, message):
    answering(text)

    with pytest.raises(ServeUnavailable, match=message):
        serving.picture(dataset_dir, 1, px=64)


@pytest.mark.usefixtures("_impatient")
def test_an_answer_of_another_shape(answering, dataset_dir, checkpoint):
    answering(b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{"images": 3}')

    with pytest.raises(ServeUnavailable, match="cannot be read"):
        serving.predict(checkpoint, [serving.SampleRef(dataset_dir, 1)])


def test_too_many_bytes_are_not_sent(checkpoint):
    images = [serving.Bytes("x", bytes(MAX_REQUEST_BYTES // 2 + 1))] * 2

    with pytest.raises(ImageInvalid, match="at most 64 MiB"):
        serving.predict(checkpoint, images)
