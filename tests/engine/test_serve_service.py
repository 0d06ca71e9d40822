"""The service as a process: who is let in, what it answers, how it ends."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.kits.serving import PROJECT_DIR, Serving, picture_bytes, write_checkpoint, write_dataset
from tests.surroundings import until
from wire.serving import JSON_BYTES_HEADER, MAX_IMAGES, MAX_REQUEST_BYTES

pytestmark = pytest.mark.slow

PICTURES_MEMORY_MIB = 150
DATASET = "jobs/1/artifacts/dataset"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    samples = [("train", 0, picture_bytes(3000, 2000, kind="JPEG")), ("val", 1, picture_bytes(8, 8))]
    write_dataset(root / DATASET, [*samples, *[("train", 1, picture_bytes(300, 200)) for _ in range(10)]])
    return root


@pytest.fixture(scope="module")
def checkpoint(root):
    sha256 = write_checkpoint(root / "jobs/2/artifacts/checkpoints/step-10.pt")
    return {"kind": "checkpoint", "path": "jobs/2/artifacts/checkpoints/step-10.pt", "sha256": sha256}


@pytest.fixture
def start(root, tmp_path):
    started = []

    def begin(*arguments):
        started.append(Serving(root, tmp_path / f"{len(started)}.sock", *arguments))
        started[-1].start()
        return started[-1]

    yield begin
    for one in started:
        one.stop()


@pytest.fixture(scope="module")
def serving(root, tmp_path_factory):
    one = Serving(root, tmp_path_factory.mktemp("socket") / "serve.sock")
    one.start()
    yield one
    one.stop()


def ask(serving, what, asked, *images):
    status, body, _ = serving.ask(what, asked, *images)
    return status, json.loads(body)


def sent(*images):
    return [{"kind": "bytes", "name": f"{place}.png", "n_bytes": len(data)} for place, data in enumerate(images)]


def loads_torch(serving):
    return "libtorch" in Path(f"/proc/{serving.process.pid}/maps").read_text()


def memory_mib(serving):
    return psutil.Process(serving.process.pid).memory_info().rss / 2**20


def test_pictures_need_no_torch_and_little_memory(start):
    serving = start()

    def look(sample):
        return [serving.ask("picture", {"dataset": DATASET, "sample": sample, "px": px})[0] for px in (64, 256, None)]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(look, [*range(1, 13)] * 3))

    assert answers == [[200, 200, 200]] * 36
    assert not loads_torch(serving)
    assert memory_mib(serving) < PICTURES_MEMORY_MIB
    assert psutil.Process(serving.process.pid).nice() == 0


def test_first_and_following_answers(start, checkpoint, capsys):
    serving = start()
    asked = {"network": checkpoint, "images": [{"kind": "sample", "dataset": DATASET, "sample": 2}], "top": 2}

    took_ms = []
    for _ in range(3):
        began_s = time.perf_counter()
        status, answer = ask(serving, "predict", asked)
        took_ms.append((time.perf_counter() - began_s) * 1000)
        assert status == 200, answer

    with capsys.disabled():
        sys.stdout.write(f"\nfirst answer {took_ms[0]:.0f} ms, next {took_ms[1]:.1f} and {took_ms[2]:.1f} ms\n")
    assert answer["load_ms"] == 0
    (image,) = answer["images"]
    assert image["name"] == "class-1/1.png"
    assert [guess["probability"] for guess in image["top"]] == sorted(
        (guess["probability"] for guess in image["top"]), reverse=True
    )
    assert len(image["top"]) == 2


def test_pictures_come_while_a_prediction_runs(serving, checkpoint):
    images = [picture_bytes(1500, 1500, kind="JPEG")] * MAX_IMAGES
    asked = {"network": checkpoint, "images": sent(*images)}

    with ThreadPoolExecutor(11) as threads:
        predicted = threads.submit(serving.ask, "predict", asked, *images)
        pictures = list(
            threads.map(lambda n: serving.ask("picture", {"dataset": DATASET, "sample": n, "px": 128}), range(1, 11))
        )

    assert {status for status, _, _ in pictures} == {200}
    assert predicted.result()[0] == 200


def test_a_bad_image_does_not_spoil_the_others(serving, checkpoint):
    images = [picture_bytes(), b"no image", b"", picture_bytes(), b"<svg/>"]

    status, answer = ask(serving, "predict", {"network": checkpoint, "images": sent(*images)}, *images)

    assert status == 200
    assert [image["error"] and image["error"]["code"] for image in answer["images"]] == [
        None,
        *["image.invalid"] * 2,
        None,
        "image.invalid",
    ]
    assert answer["images"][0]["top"] == answer["images"][3]["top"]


@pytest.mark.parametrize(
    ("what", "changes", "status", "code"),
    [
        ("picture", {"dataset": "../../etc"}, 404, "not_found"),
        ("picture", {"dataset": "/etc"}, 404, "not_found"),
        ("picture", {"dataset": "jobs/9/artifacts/dataset"}, 400, "dataset.missing"),
        ("picture", {"sample": 99}, 404, "not_found"),
        ("picture", {"sample": -1}, 400, "spec.invalid"),
        ("picture", {"sample": 2**70}, 404, "not_found"),
        ("picture", {"px": 1}, 400, "spec.invalid"),
        ("picture", {"surprise": 1}, 400, "spec.invalid"),
        ("predict", {"network": {"kind": "checkpoint", "path": "../x.pt"}}, 404, "not_found"),
        ("predict", {"network": {"kind": "checkpoint", "path": "jobs/2/none.pt"}}, 400, "checkpoint.missing"),
        ("predict", {"network": {"kind": "checkpoint", "path": f"{DATASET}/manifest.json"}}, 400, "checkpoint.damaged"),
        ("predict", {"images": []}, 400, "spec.invalid"),
        ("predict", {"images": [{"kind": "sample", "dataset": DATASET, "sample": 1}] * 33}, 400, "spec.invalid"),
        ("predict", {"top": 0}, 400, "spec.invalid"),
        ("explain", {"label": 3}, 400, "spec.invalid"),
        ("explain", {"image": {"kind": "sample", "dataset": DATASET, "sample": 99}}, 404, "not_found"),
        ("layer-tiles", {"layer": "none"}, 404, "not_found"),
        ("layer-tiles", {"layer": "head"}, 404, "not_found"),
        ("nothing", {}, 404, "not_found"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(serving, checkpoint, what, changes, status, code):
    image = {"kind": "sample", "dataset": DATASET, "sample": 2}
    asked = {
        "picture": {"dataset": DATASET, "sample": 1},
        "predict": {"network": checkpoint, "images": [image]},
        "explain": {"checkpoint": checkpoint, "image": image},
        "layer-tiles": {"checkpoint": checkpoint, "image": image, "layer": "features.0"},
    }.get(what, {})

    found, answer = ask(serving, what, asked | changes)

    assert (found, answer["code"]) == (status, code)
    assert answer["message"]
    assert "Traceback" not in json.dumps(answer)


def test_layers_and_their_tiles(serving, checkpoint):
    image = {"kind": "sample", "dataset": DATASET, "sample": 2}
    status, answer = ask(serving, "layers", {"checkpoint": checkpoint, "image": image})
    assert status == 200, answer

    for layer in answer["layers"]:
        for what, has in (("activations", layer["has_activation_tiles"]), ("weights", layer["has_weight_tiles"])):
            status, data, mime = serving.ask(
                "layer-tiles", {"checkpoint": checkpoint, "image": image, "layer": layer["name"], "what": what}
            )
            assert (status, mime) == ((200, "image/png") if has else (404, "application/json")), (layer["name"], data)


def raw(serving, head, body=b""):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(serving.socket_path))
        connection.sendall(head + b"\r\n\r\n" + body)
        return connection.makefile("rb").read()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /predict HTTP/1.0",
        b"POST /predict HTTP/1.0\r\nContent-Length: 2",
        b"POST /predict HTTP/1.0\r\nContent-Length: -2\r\nX-Json-Bytes: 2",
        b"POST /predict HTTP/1.0\r\nContent-Length: 2\r\nX-Json-Bytes: 3",
        b"POST /predict HTTP/1.0\r\nContent-Length: 2\r\nX-Json-Bytes: 2",
    ],
)
def test_a_request_without_order_is_refused(serving, head):
    answer = raw(serving, head, b"{]")

    assert b" 400 " in answer.splitlines()[0]
    assert b"spec.invalid" in answer


def test_a_huge_request_is_refused_unread(serving):
    head = f"POST /predict HTTP/1.0\r\nContent-Length: {MAX_REQUEST_BYTES + 3}\r\n{JSON_BYTES_HEADER}: 2"

    answer = raw(serving, head.encode())

    assert b" 400 " in answer.splitlines()[0]
    assert b"at most 67.1 MB" in answer


def test_a_refused_request_may_be_sent_to_its_end(serving):
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(10)
        asker.connect(str(serving.socket_path))
        asker.sendall(f"POST /nothing HTTP/1.0\r\nContent-Length: {4 << 20}\r\n{JSON_BYTES_HEADER}: 2\r\n\r\n".encode())
        select.select([asker], [], [], 10)  # the refusal is here before the body is sent

        asker.sendall(bytes(4 << 20))

        assert b" 404 " in asker.recv(1 << 16).splitlines()[0]


def test_announced_and_sent_bytes_have_to_agree(serving, checkpoint):
    asked = {"network": checkpoint, "images": [{"kind": "bytes", "name": "x", "n_bytes": 5}]}

    status, answer = ask(serving, "predict", asked, b"1234567")

    assert (status, answer["code"]) == (400, "spec.invalid")


def test_a_second_one_does_not_take_the_socket(serving, root):
    command = [sys.executable, "-m", "engine", "serve", "--root", str(root), "--socket", str(serving.socket_path)]

    second = subprocess.run(command, cwd=PROJECT_DIR, capture_output=True, text=True, check=False, timeout=60)

    assert second.returncode == 75
    assert str(serving.socket_path) in second.stderr
    assert serving.answers()


def test_two_with_sockets_of_their_own_serve_the_same_root(serving, start):
    other = start()
    asked = {"dataset": DATASET, "sample": 1, "px": 64}

    assert other.ask("picture", asked) == serving.ask("picture", asked)


def test_a_killed_one_leaves_nothing_in_the_way(start):
    serving = start()
    serving.kill()
    assert serving.socket_path.exists()

    serving.start()

    assert serving.ask("picture", {"dataset": DATASET, "sample": 1, "px": 64})[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_before_it_ends(start, number):
    serving = start()
    with ThreadPoolExecutor(8) as threads:
        asked = {"dataset": DATASET, "sample": 1, "px": 256}
        pictures = [threads.submit(serving.ask, "picture", asked) for _ in range(8)]
        until(lambda: any(picture.done() for picture in pictures))
        serving.process.send_signal(number)

        # Those who came after the socket was taken away are told so at once, and none is cut off.
        ends = [picture.exception() for picture in pictures]

    assert not [end for end in ends if end and not isinstance(end, (FileNotFoundError, ConnectionRefusedError))]
    assert serving.process.wait(timeout=30) == 0
    assert not serving.socket_path.exists()


def test_it_rests_once_torch_is_loaded_and_not_before(start, checkpoint):
    serving = start("--idle-s", "0.3")
    time.sleep(1)
    assert serving.running

    image = picture_bytes()
    assert ask(serving, "predict", {"network": checkpoint, "images": sent(image)}, image)[0] == 200

    assert serving.process.wait(timeout=30) == 0
    serving.start()
    assert not loads_torch(serving)
