"""A float network with its layers in INT8: static, in Q/DQ form, with ranges of activations from calibration images.

Weights are symmetric, a scale for each output channel. Of activations there are two kinds, because either runtime wants
what the other refuses or is slow with:

``signed``
    ``int8``, zero is zero. Only what goes into a layer is rounded; its sum, a shortcut and the activation after it stay
    in one kernel. TensorRT takes nothing else.
``unsigned``
    ``uint8``; zero is in the middle, or at the end where values are never negative, which gives those after a ReLU all
    8 bits and lets the ReLU vanish in the rounding. What comes out of convolutions, shortcuts and pools is rounded
    too, so that ONNX Runtime computes in integers from the first layer to the last. Of the signed form it recognises
    pieces only, and is no faster than in float: ResNet-50, batch 1, 219 ms against 222 ms, and 62 ms unsigned.

Ranges are the least and greatest values seen. On a ResNet-20 the 99.99th and the 99.999th percentile agreed with
PyTorch as often (99.0 % and 98.6 % against 98.6 % of 500 images), took twice as long and hold all activations of a
batch; entropy over 2,048 bins took 40 times as long and agreed in 80 %. Where one far value ruins a layer,
``engine.export.sensitivity`` puts that layer back to float.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnxruntime.quantization import CalibrationMethod, QDQQuantizer, QuantType, TensorsData

from engine.device import n_physical_cores
from engine.export.network import layer_of
from wire.errors import CalibrationTooSmall, EngineNotBuilt, SpecInvalid

LEAST_IMAGES: Final = 8
"""Below, the ranges say more about these images than about the network."""

_LAYERS: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_FOLLOWERS: Final = ("Add", "Clip", "Concat", "MaxPool", "Relu")
"""What ONNX Runtime computes in integers when all that goes in already is."""
_N_NEAR: Final = 3


@dataclass(frozen=True, slots=True)
class Ranges:
    """What ``find_ranges`` saw, for as many quantised models as are wanted."""

    values: Mapping[str, tuple[float, float]]
    """Tensor of the graph -> its least and greatest value."""
    n_images: int
    signed: bool
    """The kind of activations; see the module."""


def layers_of(network: ModelProto) -> tuple[str, ...]:
    """Paths of the PyTorch modules that can be INT8, in the order of the work: convolutions and linear layers.

    Products of two activations, as in attention, have no weights and stay in float.
    """
    return tuple(dict.fromkeys(_name(node) for node in _layer_nodes(network)))


def named(layers: Sequence[str], keep: Iterable[str]) -> tuple[str, ...]:
    """The layers that ``keep`` speaks of, in the order of ``layers``.

    Args:
        layers: of ``layers_of``.
        keep: names; one that ends in a dot means all below it.

    Raises:
        SpecInvalid: a name that fits no layer; the message lists near ones.
    """
    kept: set[str] = set()
    for name in keep:
        found = [layer for layer in layers if layer == name or (name.endswith(".") and layer.startswith(name))]
        if not found:
            raise SpecInvalid(
                f"There is no layer {name!r} to keep in float; near are {_listed(_near(name, layers))}.",
                hint="Take names from the layer view; one that ends in a dot keeps all below it.",
            )
        kept.update(found)
    return tuple(layer for layer in layers if layer in kept)


def find_ranges(network: ModelProto, pixels_batches: Iterable[NDArray[np.float32]], *, signed: bool = True) -> Ranges:
    """Show the float network the calibration images and note between which values its activations lie.

    Args:
        network: of ``network_model``, in fp32.
        pixels_batches: normalised pixels (batch, C, px, px); taken one at a time and let go.
        signed: for TensorRT; False for ONNX Runtime. See the module.

    Raises:
        CalibrationTooSmall: fewer than ``LEAST_IMAGES`` images came.
        EngineNotBuilt: a value is not a finite number, so there is no range; the message names the layer.

    Cost: one pass of the network, and a pass over each tensor; no memory beyond those and nothing on the disk.
    """
    made_by = _tensors(network)
    session = open_quietly(_with_extremes(network, made_by))
    low_T = np.full(len(made_by), np.inf, np.float32)
    high_T = -low_T
    n_images = 0
    for pixels_BCHW in pixels_batches:
        if not len(pixels_BCHW):
            continue
        logits_BK, *extremes = session.run(None, {"pixels": pixels_BCHW})
        # The runtime's reductions pass over what is not a number; the answers show it.
        if np.isnan(logits_BK).any():
            raise _no_range("the network answers with what is not a number")
        low_T, high_T = np.minimum(low_T, extremes[0::2]), np.maximum(high_T, extremes[1::2])
        n_images += len(pixels_BCHW)
    if n_images < LEAST_IMAGES:
        raise CalibrationTooSmall(
            f"INT8 needs at least {LEAST_IMAGES} calibration images to find its ranges; there are {n_images}.",
            hint="Ask for more calibration images, or import the dataset with more images for training.",
        )
    values = {name: (float(low), float(high)) for name, low, high in zip(made_by, low_T, high_T, strict=True)}
    _check_finite(values, made_by)
    return Ranges(values, n_images, signed)


def quantised(network: ModelProto, ranges: Ranges, keep: Collection[str] = ()) -> ModelProto:
    """A copy of the network with all layers in INT8 but those of ``keep``, which compute in float.

    A kept layer sees a rounded input only where another layer shares that input.

    Args:
        network: as given to ``find_ranges``.
        ranges: of ``find_ranges``.
        keep: as ``named`` takes them.

    Raises:
        SpecInvalid: ``keep`` names no layer.

    Cost: a copy of the weights; on one core ResNet-50 takes 3 s signed, 4 s unsigned, and 0.3 s at most with one layer.
    """
    layers = layers_of(network)
    kept = set(named(layers, keep))
    model = ModelProto()
    model.CopyFrom(network)
    if len(kept) == len(layers):
        return model
    chosen = _chosen(model, kept, signed=ranges.signed)
    about = {entry.key: entry.value for entry in model.metadata_props}
    # The quantiser would else write the model to a temporary file to learn the types, which are in it.
    helper.set_model_props(model, {"onnx.infer": "onnxruntime.quant"})
    quantiser = QDQQuantizer(
        _typed(model),
        per_channel=True,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8 if ranges.signed else QuantType.QUInt8,
        tensors_range=_tensors_data(ranges),
        nodes_to_quantize=chosen,
        nodes_to_exclude=[],
        op_types_to_quantize=[*_LAYERS, *_FOLLOWERS],
        extra_options=_options(signed=ranges.signed),
    )
    quantiser.quantize_model()
    quantiser.model.topological_sort()
    made: ModelProto = quantiser.model.model
    helper.set_model_props(made, about)
    _forget_gone(made)
    return made


def open_quietly(model: ModelProto) -> onnxruntime.InferenceSession:
    """On the physical cores that this process may use; nothing is written to the error stream but errors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_physical_cores()
    options.log_severity_level = 3
    # As the exported model is run, or it would be judged by sums that overflow where a processor has no VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _options(*, signed: bool) -> dict[str, Any]:
    linear = ["Gemm", "MatMul"]
    return {
        "ActivationSymmetric": signed,
        "ActivationRestrictedAsymmetric": not signed,
        "WeightSymmetric": True,
        # TensorRT takes no 32-bit biases; ONNX Runtime leaves a linear layer in float without them.
        "QuantizeBias": not signed,
        # Logits keep their order: 256 levels would make ties of near ones.
        "OpTypesToExcludeOutputQuantization": ["Conv", "ConvTranspose", *linear] if signed else linear,
    }


def _layer_nodes(network: ModelProto) -> list[NodeProto]:
    # A product of whole numbers is an index or a shape, as vision transformers compute them, and has no range.
    weights = {
        each.name for each in network.graph.initializer if len(each.dims) >= 2 and each.data_type == TensorProto.FLOAT
    }
    return [node for node in network.graph.node if node.op_type in _LAYERS and node.input[1] in weights]


def _name(node: NodeProto) -> str:
    return layer_of(node) or node.name


def _chosen(model: ModelProto, kept: Collection[str], *, signed: bool) -> list[str]:
    """Names of the nodes to compute in integers, in the order of the work.

    A follower is one of them where all that it is given is in integers already: beside a layer that was kept, a
    shortcut stays in float too, or it would round what that layer gave.
    """
    layers = [node for node in _layer_nodes(model) if _name(node) not in kept]
    chosen = {node.name for node in layers}
    if not signed:
        rounded: set[str] = set()
        for node in model.graph.node:
            follows = node.op_type in _FOLLOWERS and rounded.issuperset(node.input[: _n_activations(node)])
            if follows:
                chosen.add(node.name)
            if follows or (node.name in chosen and node.op_type.startswith("Conv")):
                rounded.add(node.output[0])
    return [node.name for node in model.graph.node if node.name in chosen]


def _n_activations(node: NodeProto) -> int:
    return 1 if node.op_type == "Clip" else len(node.input)


def _tensors(network: ModelProto) -> dict[str, str]:
    """The activations that may be rounded, each with what gives it, for messages."""
    made_by = {"pixels": "the pixels"}
    for node in network.graph.node:
        made_by.update((output, f"the layer {_name(node)!r}") for output in node.output)
    may_be_rounded = {*_chosen(network, (), signed=False)}
    return {
        tensor: made_by[tensor]
        for node in network.graph.node
        if node.name in may_be_rounded
        for tensor in (*node.input, node.output[0])
        if tensor in made_by
    }


def _with_extremes(network: ModelProto, tensors: Iterable[str]) -> ModelProto:
    """The network with two more outputs for each tensor: its least and its greatest value."""
    model = ModelProto()
    model.CopyFrom(network)
    for tensor in tensors:
        for reduction in ("ReduceMin", "ReduceMax"):
            name = f"{tensor}/{reduction}"
            model.graph.node.append(helper.make_node(reduction, [tensor], [name], name, keepdims=0))
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, []))
    return model


def _check_finite(values: Mapping[str, tuple[float, float]], made_by: Mapping[str, str]) -> None:
    for name, (low, high) in values.items():
        if not (math.isfinite(low) and math.isfinite(high)):
            raise _no_range(f"{made_by[name]} gives values from {low:g} to {high:g}")


def _no_range(what: str) -> EngineNotBuilt:
    return EngineNotBuilt(
        f"INT8 needs ranges, and on the calibration images {what}.",
        hint="Choose a checkpoint from before the training went astray, or export in fp32.",
    )


def _tensors_data(ranges: Ranges) -> TensorsData:
    """A new one each time: the quantiser changes what it is given."""
    return TensorsData(
        CalibrationMethod.MinMax,
        {name: (np.array(low, np.float32), np.array(high, np.float32)) for name, (low, high) in ranges.values.items()},
    )


def _typed(model: ModelProto) -> ModelProto:
    """With the type of every tensor: the quantiser passes over those of unknown type, and says so."""
    known = {info.name for info in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    if known.issuperset(_tensors(model)):
        return model
    return onnx.shape_inference.infer_shapes(model)


def _forget_gone(model: ModelProto) -> None:
    """Drop the types of tensors that the quantiser has taken out."""
    there = {name for node in model.graph.node for name in node.output}
    infos = [info for info in model.graph.value_info if info.name in there]
    del model.graph.value_info[:]
    model.graph.value_info.extend(infos)


def _near(name: str, layers: Sequence[str]) -> list[str]:
    if any(layer.startswith(f"{name}.") for layer in layers):
        return [f"{name}."]
    blocks = dict.fromkeys(f"{layer.rpartition('.')[0]}." for layer in layers if "." in layer)
    near = difflib.get_close_matches(name, [*layers, *blocks], n=_N_NEAR, cutoff=0.5)
    return near or list(layers[:_N_NEAR])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
