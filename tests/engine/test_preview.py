from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine import preview
from engine.data.decode import decode
from engine.data.resize import resize
from engine.store.reader import DatasetReader
from tests.kits.trees import class_tree, imported


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    tree = class_tree(tmp_path / "tree", {"cat": 20, "dog": 20, "rare": 2}, size=(20, 12))
    return imported(tree, tmp_path / "job")


def _arguments(dataset: Path, out: Path, **changes: object) -> list[str]:
    options = {"dataset": dataset, "out": out, "split": "train", "count": 12, "image-px": 16, **changes}
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


def _shown(dataset: Path, tmp_path: Path, **changes: object) -> list[dict[str, Any]]:
    out = tmp_path / "preview.json"
    assert preview.main(_arguments(dataset, out, **changes)) == 0
    images: list[dict[str, Any]] = json.loads(out.read_text())["images"]
    return images


def _pixels(image: dict[str, Any]) -> np.ndarray:
    with Image.open(io.BytesIO(base64.b64decode(image["png"]))) as png:
        return np.asarray(png)


@pytest.mark.parametrize("colour", ["rgb", "grey"])
@pytest.mark.parametrize("mode", ["squash", "half_crop"])
def test_images_are_those_that_training_reads(dataset, tmp_path, colour, mode):
    images = _shown(dataset, tmp_path, colour=colour, resize=mode)
    assert len(images) == 12
    with DatasetReader(dataset) as reader:
        samples = {sample.id: sample for sample in reader.samples("train")}
        for image in images:
            sample = samples[image["id"]]
            assert (image["name"], image["label"]) == (sample.name, sample.label)
            assert image["class"] == reader.manifest.classes[sample.label] == sample.name.split("/")[0]
            expected = resize(decode(reader.image_bytes(sample.id)), 16, mode, colour)
            np.testing.assert_array_equal(_pixels(image).reshape(expected.shape), expected)


def test_classes_share_the_images_and_the_seed_chooses(dataset, tmp_path):
    images = _shown(dataset, tmp_path)
    shares = Counter(image["class"] for image in images)
    assert shares["rare"] == 1
    assert {shares["cat"], shares["dog"]} == {5, 6}
    ids = [image["id"] for image in images]
    assert len(set(ids)) == 12
    assert [image["id"] for image in _shown(dataset, tmp_path)] == ids
    assert [image["id"] for image in _shown(dataset, tmp_path, seed=1)] != ids


@pytest.mark.parametrize(("split", "count", "expected"), [("val", 100, 9), ("test", 5, 0), ("train", 0, 0)])
def test_no_more_are_shown_than_there_are(dataset, tmp_path, split, count, expected):
    assert len(_shown(dataset, tmp_path, split=split, count=count)) == expected


def test_a_missing_dataset_is_told_and_nothing_is_written(tmp_path, capsys):
    out = tmp_path / "preview.json"
    assert preview.main(_arguments(tmp_path / "nowhere", out)) == 64
    assert "There is no dataset" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("colour", ["rgb", "grey"])
def test_augmented_images_differ_and_repeat(dataset, tmp_path, colour):
    plain = _shown(dataset, tmp_path, colour=colour)
    changed = _shown(dataset, tmp_path, colour=colour, augmentation="strong")
    assert [image["id"] for image in changed] == [image["id"] for image in plain]
    assert [image["png"] for image in changed] != [image["png"] for image in plain]
    assert {_pixels(image).shape for image in changed} == {(16, 16, 3) if colour == "rgb" else (16, 16)}
    assert _shown(dataset, tmp_path, colour=colour, augmentation="strong") == changed


def test_from_a_shell_it_runs_without_torch(dataset, tmp_path):
    code = "import sys, engine.__main__ as m; assert m.main(sys.argv[1:]) == 0; assert 'torch' not in sys.modules"
    arguments = _arguments(dataset, tmp_path / "out.json", count=3)
    subprocess.run([sys.executable, "-c", code, "preview", *arguments], check=True)
    assert len(json.loads((tmp_path / "out.json").read_text())["images"]) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "out.json", "tree"]
