"""From a picture of any size to probabilities: what ONNX Runtime answers is what PyTorch answers."""

from __future__ import annotations

import errno
import json
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from engine.export.graph import model_bytes, save_model, whole_model
from engine.export.network import NetworkPrecision, network_model
from engine.predict.session import Session
from tests.kits.bundled import CLASSES
from tests.kits.graphs import network_of, session_of

pytestmark = pytest.mark.slow

ABOUT = {"checkpoint": "epoch 3", "checkpoint_sha256": "ab" * 32}


@cache
def _content(model: str, colour: str, precision: NetworkPrecision) -> bytes:
    return model_bytes(whole_model(network_of(model, colour, precision), session_of(model, colour), ABOUT))


def _run(content: bytes, images_NHWC: np.ndarray, output: str = "probabilities") -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    runtime = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    values: np.ndarray
    (values,) = runtime.run([output], {"images": images_NHWC})
    return values


def _pictures(n: int, height: int, width: int) -> np.ndarray:
    """Noise around a colour of its own in each, so that their answers differ."""
    rng = np.random.default_rng(height)
    colours_N113 = rng.integers(0, 200, (n, 1, 1, 3))
    return (colours_N113 + rng.integers(0, 56, (n, height, width, 3))).astype(np.uint8)


def _pixels(session: Session, images_NHWC: np.ndarray) -> np.ndarray:
    return np.stack([session.pixels(Image.fromarray(image_HWC)) for image_HWC in images_NHWC])


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("fp16", 1e-3)])
@pytest.mark.parametrize(("model", "colour"), [("resnet20", "rgb"), ("lenet5", "grey")])
def test_probabilities_are_pytorchs_for_a_picture_of_any_size(precision, tolerance, model, colour):
    session, content = session_of(model, colour), _content(model, colour, precision)
    for n, height, width in [(1, 20, 33), (2, 32, 32), (5, 90, 61)]:
        images_NHWC = _pictures(n, height, width)
        expected_NK = session.probabilities(_pixels(session, images_NHWC))
        np.testing.assert_allclose(_run(content, images_NHWC), expected_NK, atol=tolerance, rtol=0)
    assert np.ptp(expected_NK, axis=0).max() > 3 * tolerance


def test_what_the_network_is_shown_is_what_the_session_shows_it():
    session = session_of("lenet5", "grey")
    model = onnx.load_from_string(_content("lenet5", "grey", "fp32"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("pixels", onnx.TensorProto.FLOAT, None))
    images_NHWC = _pictures(2, 77, 50)
    expected_NCHW = session.normalised(_pixels(session, images_NHWC)).numpy()
    np.testing.assert_array_equal(_run(model.SerializeToString(), images_NHWC, "pixels"), expected_NCHW)


def test_an_image_has_the_same_answer_alone_and_in_a_batch():
    images_NHWC = _pictures(5, 40, 50)
    content = _content("resnet20", "rgb", "fp32")
    alone_NK = np.concatenate([_run(content, image_HWC[None]) for image_HWC in images_NHWC])
    np.testing.assert_allclose(_run(content, images_NHWC), alone_NK, atol=1e-6)


def test_the_file_says_what_it_is():
    session = session_of("lenet5", "grey")
    model = onnx.load_from_string(_content("lenet5", "grey", "fp32"))
    onnx.checker.check_model(model, full_check=True)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert model.producer_name == "Fovea"
    assert tuple(json.loads(facts["classes"])) == CLASSES
    assert (json.loads(facts["mean"]), json.loads(facts["std"])) == ([*session.mean], [*session.std])
    assert (facts["image_px"], facts["resize"], facts["colour"], facts["step"]) == ("32", "half_crop", "grey", "40")
    assert (facts["task"], facts["model"]) == ("classification", "lenet5")
    assert facts.items() >= ABOUT.items()
    (output,) = model.graph.output
    assert output.name == "probabilities"
    assert [dim.dim_param or dim.dim_value for dim in output.type.tensor_type.shape.dim] == ["batch", len(CLASSES)]


def test_two_exports_give_the_same_bytes():
    session = session_of("lenet5", "grey")
    assert model_bytes(whole_model(network_model(session, "fp32"), session, ABOUT)) == _content(
        "lenet5", "grey", "fp32"
    )


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    model = onnx.load_from_string(_content("lenet5", "grey", "fp32"))
    path = tmp_path / "model.onnx"
    assert save_model(model, path) == path.stat().st_size
    assert path.read_bytes() == _content("lenet5", "grey", "fp32")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engine.export.graph.os.fsync", full)
    model.producer_version = "later"
    with pytest.raises(OSError, match="No space left"):
        save_model(model, path)
    assert path.read_bytes() == _content("lenet5", "grey", "fp32")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]
