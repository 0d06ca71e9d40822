"""The graph's pixels are those of the training: to the bit, for any size, mode and colour."""

from __future__ import annotations

from functools import cache
from typing import get_args

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from PIL import Image

from engine.data.normalise import Normalise, unit
from engine.data.resize import resize
from engine.export.preprocess import preprocess_model
from wire.specs import Colour, Resize

pytestmark = pytest.mark.slow

MODES = get_args(Resize)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.0)


@cache
def _runtime(px: int, mode: Resize, colour: Colour) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = preprocess_model(px, mode, colour, MEAN, STD)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _of_graph(images_NHWC: np.ndarray, px: int, mode: Resize, colour: Colour) -> np.ndarray:
    pixels_NCHW: np.ndarray
    (pixels_NCHW,) = _runtime(px, mode, colour).run(["pixels"], {"images": images_NHWC})
    return pixels_NCHW


def _of_training(images_NHWC: np.ndarray, px: int, mode: Resize, colour: Colour) -> np.ndarray:
    small_NHWC = np.stack([resize(Image.fromarray(image_HWC), px, mode, colour) for image_HWC in images_NHWC])
    normalise = Normalise(MEAN, STD, small_NHWC.shape[3], torch.device("cpu"), channels_last=False)
    return normalise(unit(torch.from_numpy(small_NHWC))).numpy()


def _noise(height: int, width: int, *, n: int = 1) -> np.ndarray:
    return np.random.default_rng(height * 7 + width).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def _assert_same(images_NHWC: np.ndarray, px: int, mode: Resize, colour: Colour) -> None:
    np.testing.assert_array_equal(_of_graph(images_NHWC, px, mode, colour), _of_training(images_NHWC, px, mode, colour))


SIDES = st.integers(1, 40) | st.integers(1, 300)


@settings(max_examples=80, derandomize=True, database=None)
@given(
    height=SIDES,
    width=SIDES,
    px=st.sampled_from([8, 20, 32, 57]),
    mode=st.sampled_from(MODES),
    colour=st.sampled_from(get_args(Colour)),
)
@example(height=1, width=1, px=32, mode="fill", colour="rgb")
@example(height=3000, width=1, px=32, mode="squash", colour="rgb")
@example(height=1, width=4000, px=32, mode="half_crop", colour="grey")
@example(height=20, width=20, px=57, mode="crop", colour="rgb")
# The height loses more than twice what the width does: resized first. Exactly twice: second.
@example(height=33, width=20, px=32, mode="squash", colour="rgb")
@example(height=52, width=42, px=32, mode="squash", colour="rgb")
@example(height=53, width=42, px=32, mode="squash", colour="rgb")
def test_pixels_are_those_of_the_training_to_the_bit(height, width, px, mode, colour):
    _assert_same(_noise(height, width), px, mode, colour)


@pytest.mark.parametrize("mode", MODES)
def test_a_photograph_is_reduced_to_the_same_pixels(mode):
    _assert_same(_noise(1500, 1000), 224, mode, "rgb")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("colour", get_args(Colour))
def test_a_picture_of_the_right_size_is_left_as_it_is(mode, colour):
    _assert_same(_noise(57, 57, n=3), 57, mode, colour)


@pytest.mark.parametrize(
    ("px", "width", "height", "inner"),
    [
        (96, 247, 832, 29),  # 28.5: even would be 28, but float64 has a little more
        (96, 35, 448, 7),  # 7.5: even would be 8, but float64 has a little less
        (28, 119, 136, 25),
        (100, 21, 56, 37),
        (32, 3, 64, 2),  # 1.5
        (32, 5, 64, 2),  # 2.5
        (32, 1, 640, 1),  # 0.05: there is always one
    ],
)
def test_a_side_that_comes_out_half_is_rounded_as_python_rounds_it(px, width, height, inner):
    white_NHWC = np.full((1, height, width, 3), 255, np.uint8)
    small_HWC = resize(Image.fromarray(white_NHWC[0]), px, "fill", "rgb")
    assert small_HWC.any(axis=(0, 2)).sum() == inner
    _assert_same(white_NHWC, px, "fill", "rgb")


@pytest.mark.parametrize(
    ("height", "width", "px"),
    [(16_384, 3, 32), (5, 16_384, 32), (32_767, 2, 64), (2, 32_767, 64), (4096, 3, 8)],
    ids=str,
)
@pytest.mark.parametrize("mode", ["squash", "half_crop"])
def test_the_largest_sides_give_the_same_pixels(height, width, px, mode):
    # All white: every sum of weights is as large as it gets.
    _assert_same(np.full((1, height, width, 3), 255, np.uint8), px, mode, "rgb")
    _assert_same(_noise(height, width), px, mode, "rgb")


def test_images_of_a_batch_do_not_touch_each_other():
    images_NHWC = _noise(41, 29, n=3)
    each = [_of_graph(image_HWC[None], 32, "crop", "rgb") for image_HWC in images_NHWC]
    np.testing.assert_array_equal(_of_graph(images_NHWC, 32, "crop", "rgb"), np.concatenate(each))


@pytest.mark.parametrize(("colour", "n_channels"), [("rgb", 3), ("grey", 1)])
def test_ends_and_operators_are_those_that_every_runtime_takes(colour, n_channels):
    graph = preprocess_model(57, "fill", colour, MEAN, STD).graph

    def shape(end):
        return [dim.dim_param or dim.dim_value for dim in end.type.tensor_type.shape.dim]

    (images,), (pixels,) = graph.input, graph.output
    assert (images.name, images.type.tensor_type.elem_type, shape(images)) == (
        *("images", TensorProto.UINT8),
        ["batch", "height", "width", 3],
    )
    assert (pixels.name, pixels.type.tensor_type.elem_type, shape(pixels)) == (
        *("pixels", TensorProto.FLOAT),
        ["batch", n_channels, 57, 57],
    )
    kinds = {constant.data_type for constant in graph.initializer}
    assert kinds == {TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT}
    assert "Resize" not in {node.op_type for node in graph.node}
    assert [node.op_type for node in graph.node if "images" in node.input] == ["Cast"]


@pytest.mark.parametrize("mode", ["squash", "half_crop"])
def test_tensorrt_builds_it(mode):
    trt = pytest.importorskip("tensorrt_rtx")
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(preprocess_model(32, mode, "grey", MEAN, STD).SerializeToString())
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("images", (1, 1, 1, 3), (8, 32, 32, 3), (32, 4096, 4096, 3))
    config.add_optimization_profile(profile)
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM80, 0)
    assert builder.build_serialized_network(network, config) is not None
