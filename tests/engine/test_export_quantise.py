from __future__ import annotations

import tempfile

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from engine.export.quantise import LEAST_IMAGES, find_ranges, layers_of, named, open_quietly, quantised
from tests.kits.float_network import LAYERS, WIDTH, float_network, pixels
from wire.errors import CalibrationTooSmall, EngineNotBuilt, SpecInvalid

pytestmark = pytest.mark.slow

both_kinds = pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])


@pytest.fixture(scope="module")
def network():
    return float_network()


@pytest.fixture(scope="module")
def ranges(network):
    """By whether they are signed."""
    batches = [pixels(64, seed=1), pixels(64, seed=2)]
    return {signed: find_ranges(network, batches, signed=signed) for signed in (True, False)}


def _logits(model, images):
    return open_quietly(model).run(["logits"], {"pixels": images})[0]


def _zero_points(model):
    """Of activations: those that no weight goes through."""
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return [values[node.input[2]] for node in model.graph.node if node.op_type == "QuantizeLinear"]


def _made_by(model):
    return {name: node for node in model.graph.node for name in node.output}


class TestLayers:
    def test_in_the_order_of_the_work(self, network):
        assert layers_of(network) == LAYERS

    def test_products_of_activations_are_none(self):
        """As in attention."""
        info = onnx.helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 4, 4])
        out = onnx.helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4, 4])
        weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "val_7")
        nodes = [
            onnx.helper.make_node("MatMul", ["pixels", "val_7"], ["q"], "attention.query/MatMul"),
            onnx.helper.make_node("MatMul", ["q", "pixels"], ["logits"], "attention/MatMul"),
        ]
        model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "attention", [info], [out], [weight]))
        assert layers_of(model) == ("attention.query",)


class TestNamed:
    def test_names_and_all_below_one(self):
        assert named(LAYERS, ["head", "blocks.1."]) == ("blocks.1.conv1", "blocks.1.conv2", "head")

    @pytest.mark.parametrize(
        ("name", "near"),
        [
            ("blocks.2.conv9", "'blocks.2.conv"),
            ("blocks.1", "'blocks.1.'"),
            ("hed", "'head'"),
            ("blocks9.", "'blocks."),
        ],
    )
    def test_an_unknown_one_tells_of_near_ones(self, name, near):
        with pytest.raises(SpecInvalid) as caught:
            named(LAYERS, ["head", name])
        assert repr(name) in caught.value.message
        assert near in caught.value.message


class TestRanges:
    def test_are_the_least_and_greatest_values_of_all_batches(self, network):
        batches = [pixels(6, seed=3), pixels(0, seed=3), pixels(5, seed=4)]
        ranges = find_ranges(network, iter(batches))
        whole = np.concatenate(batches)
        assert ranges.n_images == 11
        assert ranges.values["pixels"] == (whole.min(), whole.max())
        logits_BK = _logits(network, whole)
        assert ranges.values["logits"] == pytest.approx((logits_BK.min(), logits_BK.max()), rel=1e-5)

    @pytest.mark.parametrize("n_images", [0, LEAST_IMAGES - 1])
    def test_of_too_few_images(self, network, n_images):
        with pytest.raises(CalibrationTooSmall, match=f"at least {LEAST_IMAGES} .* there are {n_images}"):
            find_ranges(network, [pixels(n_images, seed=1)] if n_images else [])

    def test_that_are_not_finite_name_the_layer(self, network):
        broken = onnx.ModelProto()
        broken.CopyFrom(network)
        bias = next(each for each in broken.graph.initializer if each.name == "blocks.0.conv2.bias")
        bias.CopyFrom(numpy_helper.from_array(np.full(WIDTH, -np.inf, np.float32), bias.name))
        with pytest.raises(EngineNotBuilt, match=r"the layer 'blocks\.0\.conv2' gives values"):
            find_ranges(broken, [pixels(8, seed=1)])

    def test_arithmetic_on_shapes_has_none(self, network):
        """As in vision transformers, which join lengths to shapes and add to them."""
        model = onnx.ModelProto()
        model.CopyFrom(network)
        make = onnx.helper.make_node
        model.graph.node.extend(
            [
                make("Shape", ["pixels"], ["shape"], "Shape"),
                make("Concat", ["shape", "shape"], ["twice"], "Concat", axis=0),
                make("Add", ["twice", "twice"], ["sum"], "Add"),
            ]
        )
        ranges = find_ranges(model, [pixels(8, seed=1)], signed=False)
        assert not {"shape", "twice", "sum"} & {*ranges.values}
        assert "sum_QuantizeLinear" not in {node.name for node in quantised(model, ranges).graph.node}

    def test_a_product_of_whole_numbers_is_no_layer(self, network):
        """As where places in a window become indices: ONNX Runtime refuses a network that gives such for floats."""
        model = onnx.ModelProto()
        model.CopyFrom(network)
        places = numpy_helper.from_array(np.arange(6, dtype=np.int64).reshape(2, 3), "places")
        model.graph.initializer.extend([places, numpy_helper.from_array(np.ones((3, 2), np.int64), "strides")])
        model.graph.node.append(onnx.helper.make_node("MatMul", ["places", "strides"], ["val_1"], "window/MatMul"))
        model.graph.node.append(onnx.helper.make_node("MatMul", ["val_1", "places"], ["val_2"], "window/MatMul_2"))
        assert layers_of(model) == LAYERS
        ranges = find_ranges(model, [pixels(8, seed=1)], signed=False)
        assert not {"val_1", "val_2"} & {*ranges.values}
        assert "val_2" in _made_by(quantised(model, ranges))

    def test_a_nan_in_one_batch_is_not_passed_over(self, network):
        spoilt = pixels(8, seed=2)
        spoilt[3, 0] = np.nan
        with pytest.raises(EngineNotBuilt, match="the network answers with what is not a number"):
            find_ranges(network, [pixels(8, seed=1), spoilt, pixels(8, seed=3)])


class TestQuantised:
    @both_kinds
    def test_answers_nearly_as_in_float(self, network, ranges, signed):
        images = pixels(120, seed=11)
        logits_BK, float_BK = _logits(quantised(network, ranges[signed]), images), _logits(network, images)
        assert (logits_BK.argmax(1) == float_BK.argmax(1)).mean() >= 0.97
        assert 0 < np.abs(logits_BK - float_BK).mean() < 0.05 * np.abs(float_BK).mean()

    @both_kinds
    def test_weights_have_a_scale_a_channel(self, network, ranges, signed):
        model = quantised(network, ranges[signed])
        onnx.checker.check_model(model, full_check=True)
        values = {each.name: each for each in model.graph.initializer}
        for layer in LAYERS[:-1]:
            assert values[f"{layer}.weight_quantized"].data_type == TensorProto.INT8
            assert values[f"{layer}.weight_scale"].dims == [WIDTH]
            assert not numpy_helper.to_array(values[f"{layer}.weight_zero_point"]).any()
            assert f"{layer}.weight" not in values
        # TensorRT refuses 32-bit biases; ONNX Runtime computes a linear layer in float without them.
        assert (TensorProto.INT32 in {each.data_type for each in values.values()}) is not signed

    def test_signed_activations_have_zero_at_zero(self, network, ranges):
        zeros = _zero_points(quantised(network, ranges[True]))
        assert {(zero.dtype.name, int(zero)) for zero in zeros} == {("int8", 0)}

    def test_unsigned_ones_have_it_in_the_middle_or_at_the_end(self, network, ranges):
        model = quantised(network, ranges[False])
        assert {(zero.dtype.name, int(zero)) for zero in _zero_points(model)} == {("uint8", 0), ("uint8", 128)}
        assert "Relu" not in {node.op_type for node in model.graph.node}

    def test_unsigned_ones_run_in_integers_throughout(self, network, ranges, tmp_path):
        """What makes it fast; the signed form is taken apart by ONNX Runtime."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        onnxruntime.InferenceSession(quantised(network, ranges[False]).SerializeToString(), options)
        ops = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
        # The factor between two layers of the far block is no layer.
        assert {op: ops.count(op) for op in ("Conv", "QLinearConv", "QLinearAdd", "QGemm", "Relu")} == {
            "Conv": 0,
            "QLinearConv": len(LAYERS) - 1,
            "QLinearAdd": 3,
            "QGemm": 1,
            "Relu": 0,
        }

    @both_kinds
    def test_kept_layers_compute_in_float(self, network, ranges, signed):
        model = quantised(network, ranges[signed], ["blocks.0.", "head"])
        made_by = _made_by(model)
        in_float = {
            node.name.split("/")[0]
            for node in model.graph.node
            if node.op_type in ("Conv", "Gemm") and node.input[1] not in made_by
        }
        assert in_float == {"blocks.0.conv1", "blocks.0.conv2", "head"}
        # Nor is what they give rounded by a shortcut that follows.
        shortcut = next(node for node in model.graph.node if node.name == "blocks.0/Add")
        assert made_by[shortcut.input[0]].op_type == "Conv"

    def test_all_kept_is_the_float_network(self, network, ranges):
        assert quantised(network, ranges[True], LAYERS) == network

    @both_kinds
    def test_same_bytes_again_and_the_network_is_left_alone(self, network, ranges, signed):
        before = network.SerializeToString(deterministic=True)
        first, second = (quantised(network, ranges[signed], ["stem.conv"]) for _ in range(2))
        assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)
        assert network.SerializeToString(deterministic=True) == before

    def test_leaves_no_file_and_says_nothing(self, network, tmp_path, monkeypatch, capfd, caplog):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        quantised(network, find_ranges(network, [pixels(8, seed=1)]))
        assert not [*tmp_path.iterdir()]
        assert capfd.readouterr() == ("", "")
        assert not caplog.records

    def test_metadata_stays(self, network, ranges):
        told = onnx.ModelProto()
        told.CopyFrom(network)
        onnx.helper.set_model_props(told, {"model": "tiny"})
        assert [(each.key, each.value) for each in quantised(told, ranges[True]).metadata_props] == [("model", "tiny")]

    @both_kinds
    def test_tensorrt_takes_signed_ones_alone(self, network, ranges, signed):
        import tensorrt_rtx as trt

        logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
        builder = trt.Builder(logger)
        definition = builder.create_network(0)
        parser = trt.OnnxParser(definition, logger)
        assert parser.parse(quantised(network, ranges[signed]).SerializeToString()) is signed
        if signed:
            config, profile = builder.create_builder_config(), builder.create_optimization_profile()
            profile.set_shape("pixels", (1, 3, 10, 10), (8, 3, 10, 10), (32, 3, 10, 10))
            config.add_optimization_profile(profile)
            config.num_compute_capabilities = 1
            config.set_compute_capability(trt.ComputeCapability.SM89, 0)
            assert builder.build_serialized_network(definition, config) is not None
