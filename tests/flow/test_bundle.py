"""A bundle in the hands of somebody who has nothing of Fovea: every program in it is run as a program."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack

import numpy as np
import pytest
from PIL import Image

from engine.data.decode import decode
from tests.kits.bundled import CLASSES, exports, new_session, unpacked

pytestmark = pytest.mark.slow

SAME = 1e-3


@pytest.fixture(scope="module")
def session():
    return new_session(resize="half_crop")


@pytest.fixture(scope="module")
def entries(tmp_path_factory, session):
    return exports(tmp_path_factory.mktemp("exports"), session, "pytorch", "onnx", "tensorrt_rtx")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, entries):
    return unpacked(tmp_path_factory.mktemp("whole"), entries)


@pytest.fixture
def onnx_alone(tmp_path, entries):
    """To be tampered with; nothing in it loads torch, which takes seconds."""
    return unpacked(tmp_path, entries[1:2])


def photograph(height, width, channels=3):
    """Smooth, with an edge: nothing that a resize treats kindly."""
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [np.sin(rows / (7 + 30 * n)) * np.cos(columns / (11 + 20 * n)) for n in range(channels)]
    pixels = np.stack(waves, axis=-1) * 90 + 128 + 37 * (columns > width // 3)[..., None]
    return pixels.clip(0, 255).astype(np.uint8).squeeze()


def encoded(image, form, **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def palette_with_transparency():
    image = Image.fromarray(photograph(40, 50)).quantize(16)
    return encoded(image, "PNG", transparency=3)


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.fromarray(photograph(90, 160)), "JPEG", exif=exif, quality=95)


IMAGES = {
    "photograph.jpg": lambda: encoded(Image.fromarray(photograph(2000, 3000)), "JPEG", quality=90),
    "icon.png": lambda: encoded(Image.fromarray(photograph(20, 20)), "PNG"),
    "grey.jpg": lambda: encoded(Image.fromarray(photograph(80, 120, 1)), "JPEG"),
    "cmyk.jpg": lambda: encoded(Image.fromarray(photograph(70, 90)).convert("CMYK"), "JPEG"),
    "palette.png": palette_with_transparency,
    "deep.png": lambda: encoded(Image.fromarray(photograph(60, 60, 1).astype(np.uint16) * 257), "PNG"),
    "turned.jpg": turned,
    "moving.gif": lambda: encoded(
        Image.fromarray(photograph(30, 40)), "GIF", save_all=True, append_images=[Image.new("RGB", (40, 30))]
    ),
}


def test_nothing_of_this_checkout_is_found_from_there(whole):
    (whole.path.parent / "look.py").write_text("import engine")
    assert "No module named 'engine'" in whole.run("../look.py").stderr


def test_all_that_can_be_run_here_passes(whole):
    done = whole.run("verify.py")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[:2] for line in lines if "fp32" in line] == [
        ["PASS", "pytorch-fp32"],
        ["PASS", "onnx-fp32"],
        ["NOT", "RUN"],
    ]
    assert lines[-1] == "PASS"
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=whole.path, check=False).returncode == 0


def test_one_image_has_one_answer_everywhere(whole, session, tmp_path):
    for name, make in IMAGES.items():
        (tmp_path / name).write_bytes(make())
    done = whole.run("predict.py", "--json", "--top", str(len(CLASSES)), *(str(tmp_path / name) for name in IMAGES))
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["image"].rpartition("/")[2] for entry in told] == list(IMAGES)
    answers = []
    for name, entry in zip(IMAGES, told, strict=True):
        pixels = session.pixels(decode((tmp_path / name).read_bytes()))
        expected = session.probabilities(pixels[None])[0]
        found = {each["label"]: each["probability"] for each in entry["top"]}
        assert entry["top"][0]["class"] == CLASSES[int(expected.argmax())], name
        assert [found[label] for label in range(len(CLASSES))] == pytest.approx(expected.tolist(), abs=SAME), name
        answers.append(tuple(expected.round(3)))
    assert len(set(answers)) > len(answers) // 2


@pytest.fixture
def load_weights(monkeypatch, tmp_path):
    """The program of a bundle of such a network, inside this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("predict", "network"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def load(session):
        made = unpacked(tmp_path, exports(tmp_path, session, "pytorch"))
        spec = importlib.util.spec_from_file_location("loaded_weights", made.path / "weights/load_weights.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in ("predict", "network"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("resize", ["squash", "crop", "fill", "half_crop"])
@pytest.mark.parametrize("colour", ["rgb", "grey"])
def test_weights_answer_as_the_network_does(load_weights, resize, colour):
    """From the file of an image on, of whatever shape."""
    session = new_session(resize=resize, colour=colour, model="resnet20")
    program = load_weights(session)
    network = program.load()
    for name in ("icon.png", "turned.jpg", "palette.png"):
        data = IMAGES[name]()
        expected = session.pixels(decode(data))
        assert np.array_equal(program.pixels(Image.fromarray(np.asarray(decode(data).convert("RGB")))), expected)
        shares = session.probabilities(expected[None])[0]
        assert program.probabilities(network, data) == pytest.approx(shares, abs=1e-5)


def test_weights_are_loaded_by_a_program(whole):
    done = whole.run("weights/load_weights.py", "golden/1.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "LeNet5: 61,496 parameters"


def test_a_class_is_printed_on_one_line_and_files_that_are_none_are_told(whole, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    done = whole.run("predict.py", "--top", "9", "golden/1.png", str(tmp_path / "broken.png"), "missing.png")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1 + len(CLASSES)
    assert "b?ird" in done.stdout
    assert "broken.png: not an image" in done.stderr
    assert "missing.png" in done.stderr
    unknown = whole.run("predict.py", "golden/1.png", "--model", "onnx-int4")
    assert unknown.returncode == 2
    assert "there are: onnx-fp32" in unknown.stderr


def test_what_was_tampered_with_is_named(onnx_alone):
    place = onnx_alone.path
    with (place / "models/onnx-fp32/model.onnx").open("r+b") as file:
        file.seek(-3, 2)
        file.write(b"x")
    (place / "labels.txt").unlink()
    (place / "models/extra.onnx").write_bytes(b"new")
    (place / "golden/2.png").write_bytes((place / "golden/1.png").read_bytes())
    done = onnx_alone.run("verify.py")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "FILE     golden/2.png: changed",
        "FILE     labels.txt: missing",
        "FILE     models/extra.onnx: not listed",
        "FILE     models/onnx-fp32/model.onnx: changed",
        "FAIL     onnx-fp32  not run: models/onnx-fp32/model.onnx is changed",
        "FAIL",
    ]


@pytest.mark.parametrize(
    ("path", "problem"),
    [("server.py", "changed"), ("onnxruntime.py", "not listed"), ("numpy/__init__.py", "not listed")],
)
def test_no_program_is_run_beside_one_that_is_not_of_the_bundle(onnx_alone, path, problem):
    """Python would take it for the library of its name."""
    place = onnx_alone.path / path
    place.parent.mkdir(exist_ok=True)
    if place.parent != onnx_alone.path:  # a folder that pretends to be a virtual environment
        (place.parent / "pyvenv.cfg").write_text("")
    place.write_text("print('RUN'); raise SystemExit(0)")
    done = onnx_alone.run("verify.py")
    assert done.returncode == 1
    assert f"FILE     {path}: {problem}" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "FAIL     not run: what is needed to run the models is not as it was"
    assert "RUN" not in done.stdout.replace("NOT RUN", "").split()


def test_what_is_no_file_is_named_and_not_waited_for(onnx_alone):
    (onnx_alone.path / "labels.txt").unlink()
    os.mkfifo(onnx_alone.path / "labels.txt")
    assert "FILE     labels.txt: not a plain file" in onnx_alone.run("verify.py").stdout


def test_what_comes_into_being_by_using_a_bundle_is_no_tampering(onnx_alone):
    for name in ("rebuilt/onnx-fp32/current.engine", "__pycache__/predict.pyc", ".venv/x.py", "env/pyvenv.cfg"):
        (onnx_alone.path / name).parent.mkdir(parents=True)
        (onnx_alone.path / name).write_text("new")
    done = onnx_alone.run("verify.py")
    assert done.returncode == 0, done.stdout


def test_where_nothing_is_installed_the_files_are_checked_and_models_are_not_run(onnx_alone):
    command = [sys.executable, "-S", "verify.py"]
    done = subprocess.run(command, cwd=onnx_alone.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1:] == [
        "NOT RUN  onnx-fp32  not installed: numpy",
        "PASS, for the files alone: no model could be run here",
    ]


def test_other_answers_fail_even_where_all_hashes_fit(onnx_alone):
    """As on a machine that computes something else."""
    golden_path, sums_path = onnx_alone.path / "golden.json", onnx_alone.path / "SHA256SUMS"
    golden = json.loads(golden_path.read_text())
    golden["cases"][1]["probabilities"][2] += 0.01
    before = hashlib.sha256(golden_path.read_bytes()).hexdigest()
    golden_path.write_text(json.dumps(golden))
    after = hashlib.sha256(golden_path.read_bytes()).hexdigest()
    sums_path.write_text(sums_path.read_text().replace(before, after))
    done = onnx_alone.run("verify.py")
    assert done.returncode == 1
    assert "FAIL     onnx-fp32  golden/2.png: differs by 0.01, and may by 0.0001" in done.stdout
    assert "FILE " not in done.stdout


@pytest.mark.parametrize("gone", ["SHA256SUMS", "bundle.json"])
def test_without_the_list_or_the_index_nothing_is_run(onnx_alone, gone):
    (onnx_alone.path / gone).unlink()
    done = onnx_alone.run("verify.py")
    assert done.returncode == 1
    assert f"FILE     {gone}: missing" in done.stdout
    assert "PASS" not in done.stdout


@pytest.fixture
def server(whole):
    """Its address, once it listens."""
    process = subprocess.Popen(
        whole.command("server.py", "--port", "0"), cwd=whole.path, env=whole.environment, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    yield process.stdout.readline().split()[-1]
    process.terminate()
    process.wait()
    process.stdout.close()


def asked(address, data=None, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_server_answers_and_refuses(whole, server):
    assert asked(f"{server}health") == (200, {"model": "onnx-fp32"})
    status, body = asked(server, (whole.path / "golden/1.png").read_bytes())
    assert status == 200
    golden = json.loads((whole.path / "golden.json").read_text())["cases"][0]
    assert body["top"][0]["probability"] == pytest.approx(max(golden["probabilities"]), abs=SAME)
    assert asked(server, b"no image")[0] == 422
    assert asked(f"{server}other", b"x")[0] == 404
    assert asked(f"{server}other")[0] == 404
    assert asked(server, b"x", **{"Content-Length": str(2**40)})[0] == 413


def test_the_server_holds_no_more_images_than_it_has_places_for(server):
    host, port = server.removeprefix("http://").rstrip("/").split(":")
    begun = b"POST / HTTP/1.0\r\nContent-Length: 99\r\n\r\n"
    with ExitStack() as opened:
        for _ in range(16):
            slow = opened.enter_context(socket.create_connection((host, int(port))))
            slow.sendall(begun)
        one_more = opened.enter_context(socket.create_connection((host, int(port))))
        assert one_more.recv(100).startswith(b"HTTP/1.0 503 ")


def test_an_engine_is_rebuilt_for_a_gpu_that_is_not_here(tmp_path, entries):
    made = unpacked(tmp_path, entries[2:])
    done = made.run("build_engine.py", "--capability", "8.9", "3.5")
    assert (made.path / "rebuilt/tensorrt_rtx-fp32/sm89.engine").stat().st_size > 100_000
    assert done.returncode == 1
    assert "knows no 3.5" in done.stderr
