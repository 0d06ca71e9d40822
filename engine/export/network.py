"""The network alone as an ONNX graph: normalised pixels in, logits out."""

from __future__ import annotations

import ast
import copy
import io
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, Literal

import onnx
import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from engine.predict.session import Session
from wire.errors import OperatorRefused

OPSET: Final = 20
"""The oldest that has GELU as one operator; ONNX Runtime and TensorRT for RTX both take it."""
IR_VERSION: Final = 10
NetworkPrecision = Literal["fp32", "fp16"]

_SCOPES: Final = "pkg.torch.onnx.name_scopes"
_REWRITTEN_BY: Final = "pkg.onnxscript.rewriter.rule_name"
_OPERATOR = re.compile(r"OpOverload\(op='([^']+)'")


def network_model(session: Session, precision: NetworkPrecision) -> onnx.ModelProto:
    """The session's network in evaluation mode; the session itself is left as it is.

    For ``fp16`` the weights and all that is computed are halves; pixels and logits stay float32, the casts are inside.
    Weights keep the names that they have in PyTorch, and nodes are named ``<path of the module>/<operator>``: see
    ``layer_of``.

    Shapes:
        input ``pixels`` float32 (batch, C, px, px), normalised; output ``logits`` float32 (batch, K).

    Raises:
        OperatorRefused: the network does something that has no translation; the message names it.
    """
    network = copy.deepcopy(session.network)
    dtype = torch.float16 if precision == "fp16" else torch.float32
    network = network.to(  # type: ignore[call-overload]
        device="cpu", dtype=dtype, memory_format=torch.contiguous_format
    )
    n_channels = 1 if session.colour == "grey" else 3
    pixels_BCHW = torch.zeros(2, n_channels, session.image_px, session.image_px, dtype=dtype)
    model = _exported(network.eval(), pixels_BCHW, session.model)
    if precision == "fp16":
        _fold_norms(model, session.network)
        _cast_ends(model)
    _tidy(model)
    return model


def layer_of(node: NodeProto) -> str:
    """Path of the PyTorch module that a node of ``network_model`` came from, as ``layer1.0.conv1``; "" if of none."""
    name: str = node.name
    return name.rpartition("/")[0]


def _exported(network: nn.Module, pixels_BCHW: torch.Tensor, name: str) -> onnx.ModelProto:
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                network,
                (pixels_BCHW,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
                input_names=["pixels"],
                output_names=["logits"],
                opset_version=OPSET,
                verbose=False,
            )
            return program.model_proto  # type: ignore[union-attr]
    except torch.onnx.OnnxExporterError as error:
        raise OperatorRefused(
            f"{name} cannot be written as ONNX: {_refusal(error)}.",
            hint="Export the PyTorch weights instead, or choose a model without this operator.",
        ) from error


def _refusal(error: BaseException) -> str:
    """What was refused, out of the exporter's chain of errors."""
    innermost = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    if found := _OPERATOR.search(str(innermost)):
        return f"the operator {found[1]} has no translation"
    return str(innermost).strip().partition("\n")[0].rstrip(".")


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter prints, warns and logs about matters of its own."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _fold_norms(model: onnx.ModelProto, network: nn.Module) -> None:
    """Convolutions that have swallowed their norm, made anew from the weights in float32.

    The exporter multiplies halves by halves; rounding once, at the end, brings probabilities up to three times nearer.
    """
    graph = model.graph
    made: dict[str, TensorProto] = {}
    for node in graph.node:
        # Where two convolutions came out equal the exporter keeps one: what is right for the first is for the second.
        if not _has_norm(node) or node.input[1] in made:
            continue
        path = _module_path(node)
        conv, norm = network.get_submodule(path), network.get_submodule(_scopes(node)[-2])
        if not isinstance(conv, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d):
            continue
        if norm.running_mean is None or norm.running_var is None:
            continue
        values = fuse_conv_bn_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
        )
        names = [f"{path}.weight", f"{path}.bias"]
        node.input[1:] = names
        for name, value in zip(names, values, strict=True):
            made[name] = numpy_helper.from_array(value.detach().half().cpu().contiguous().numpy(), name)
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used and tensor.name not in made]
    del graph.initializer[:]
    graph.initializer.extend([*kept, *made.values()])


def _tidy(model: onnx.ModelProto) -> None:
    """Nodes named by their modules; without the paths of this machine and the traces that the exporter left."""
    model.ir_version = IR_VERSION
    graph = model.graph
    n_named: Counter[str] = Counter()
    for node in graph.node:
        path = _module_path(node)
        name = f"{path}/{node.op_type}"
        n_named[name] += 1
        node.name = name if n_named[name] == 1 else f"{name}_{n_named[name]}"
        node.doc_string = ""
        _keep_metadata(node, {_SCOPES: repr(["", path, node.op_type])})
    described: tuple[Any, ...] = (model, graph, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for proto in described:
        proto.doc_string = ""
        _keep_metadata(proto, {})


def _module_path(node: NodeProto) -> str:
    if _has_norm(node):
        # Says it is of the norm, which the convolution has swallowed.
        return str(node.input[1]).removesuffix(".weight")
    scopes = _scopes(node)
    # From the network down to the operator; what the tracer added itself is of no module.
    return scopes[-2] if len(scopes) > 1 and not scopes[0] else ""


def _has_norm(node: NodeProto) -> bool:
    return "FuseBatchNorm" in _fact(node, _REWRITTEN_BY) and node.input[1].endswith(".weight")


def _scopes(node: NodeProto) -> list[str]:
    return [str(scope) for scope in ast.literal_eval(_fact(node, _SCOPES) or "[]")]


def _fact(node: NodeProto, key: str) -> str:
    return next((str(entry.value) for entry in node.metadata_props if entry.key == key), "")


def _keep_metadata(proto: Any, kept: dict[str, str]) -> None:
    del proto.metadata_props[:]
    for key, value in kept.items():
        proto.metadata_props.add(key=key, value=value)


def _cast_ends(model: onnx.ModelProto) -> None:
    """Float32 outside, halves inside."""
    graph = model.graph
    for node in graph.node:
        for names, end in ((node.input, "pixels"), (node.output, "logits")):
            for i, name in enumerate(names):
                if name == end:
                    names[i] = f"{end}_fp16"
    graph.node.insert(0, helper.make_node("Cast", ["pixels"], ["pixels_fp16"], "/Cast_in", to=TensorProto.FLOAT16))
    graph.node.append(helper.make_node("Cast", ["logits_fp16"], ["logits"], "/Cast_out", to=TensorProto.FLOAT))
    for end in (graph.input[0], graph.output[0]):
        end.type.tensor_type.elem_type = TensorProto.FLOAT
