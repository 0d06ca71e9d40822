from __future__ import annotations

import io
import os
import random
import re
import socket
import subprocess
import sys
import zipfile

import pytest
from django.conf import settings
from PIL import Image

pytestmark = pytest.mark.slow


@pytest.fixture
def demo(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FOVEA_", "PYTEST"))}
    for name in ("REDIS_URL", "CACHE_DIR", "DATABASE_URL"):
        inherited.pop(name, None)
    places = {"DATA_DIR": str(tmp_path / "data"), "PORT": str(port), "DJANGO_SETTINGS_MODULE": "config.settings"}

    def run(**changes):
        return subprocess.run(
            [sys.executable, "scripts/demo.py"],
            cwd=settings.BASE_DIR,
            env={**inherited, **places, **changes},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_without_a_server_it_starts_one_trains_and_stops_it(demo, tmp_path):
    result = demo(EPOCHS="2", MODEL="lenet5", TARGETS="onnx:fp32 onnx:int8 tensorrt_rtx:fp32")

    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^accuracy: \d+\.\d\d %$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^run: http://127\.0\.0\.1:\d+/runs/\d+/$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^ONNX +fp32 +passed +\d+\.\d\d% +[+-]\d", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^TensorRT for RTX +fp32 +not run .* no CUDA device$", result.stdout, flags=re.MULTILINE)
    bundle = re.search(r"^bundle: (.+\.zip)$", result.stdout, flags=re.MULTILINE)
    assert bundle
    with zipfile.ZipFile(bundle[1]) as members:
        assert members.testzip() is None
        names = {name.partition("/")[2] for name in members.namelist()}
    assert {"predict.py", "SHA256SUMS", "models/onnx-fp32/model.onnx", "models/onnx-int8/model.onnx"} <= names
    assert not (tmp_path / "data" / "run" / "state.json").exists()


def test_a_wish_that_cannot_be_is_one_line_before_anything_is_started(demo, tmp_path):
    result = demo(EPOCHS="many")

    assert result.returncode == 1
    assert result.stderr.strip() == "EPOCHS=many is not a whole number."
    assert not (tmp_path / "data").exists()


def test_a_target_that_is_none_is_one_line_before_anything_is_started(demo, tmp_path):
    result = demo(TARGETS="onnx:fp32 tensorrt")

    assert result.returncode == 1
    assert result.stderr.strip().startswith("TARGETS=onnx:fp32 tensorrt: 'tensorrt' is no target.")
    assert not (tmp_path / "data").exists()


def test_an_archive_that_is_not_there_is_one_line_before_anything_is_started(demo, tmp_path):
    result = demo(DATA=str(tmp_path / "mine.zip"))

    assert result.returncode == 1
    assert result.stderr.strip().startswith(f"DATA={tmp_path / 'mine.zip'} is no file.")
    assert not (tmp_path / "data").exists()


def test_data_goes_from_an_archive_to_an_evaluation(demo, tmp_path):
    result = demo(DATA=str(_archive(tmp_path / "shades.zip")), EPOCHS="2", MODEL="lenet5", TARGETS="onnx:fp32")

    assert result.returncode == 0, result.stdout + result.stderr
    assert "dataset: 60 images, 2 classes, 0 files refused" in result.stdout
    assert re.search(r"^checkpoint: step-\d+, epoch [12]\. Best val/top1", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^validation +12 +\d+\.\d\d%", result.stdout, flags=re.MULTILINE)


def _archive(path):
    """Sixty pictures in two classes, told apart by their brightness."""
    draw = random.Random(0)  # noqa: S311
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(60):
            image = io.BytesIO()
            shade = draw.randrange(0, 90) + 160 * (number % 2)
            Image.new("L", (32, 32), shade).save(image, "PNG")
            image.write(str(number).encode())
            archive.writestr(f"{('dark', 'light')[number % 2]}/{number}.png", image.getvalue())
    return path
