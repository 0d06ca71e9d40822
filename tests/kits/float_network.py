"""A small float network as ``engine.export.network`` writes them, made without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from engine.export.network import IR_VERSION, OPSET
from engine.export.quantise import open_quietly

N_CLASSES, PX, WIDTH = 4, 10, 8
FAR_LAYER = "blocks.1.conv2"
LAYERS = (
    "stem.conv",
    *(f"blocks.{block}.conv{conv}" for block in range(3) for conv in (1, 2)),
    "head",
)


def pixels(n: int, seed: int) -> NDArray[np.float32]:
    """Noise around a colour, which is another one in every image. Shapes: (n, 3, PX, PX)."""
    rng = np.random.default_rng(seed)
    colours_B3 = rng.normal(0, 1.5, (n, 3, 1, 1))
    return (colours_B3 + rng.normal(0, 0.3, (n, 3, PX, PX))).astype(np.float32)


def float_network(far: float = 1.0) -> onnx.ModelProto:
    """A stem, three blocks with a shortcut, a head; its classes come about equally often.

    Args:
        far: what goes into ``FAR_LAYER`` has one channel this many times as large as the others; the layer divides by
            it again, so that the float network answers the same for any ``far``.
    """
    made = _Maker(far)
    made.bias_K[:] -= open_quietly(made.model()).run(["logits"], {"pixels": pixels(200, seed=99)})[0].mean(0)
    return made.model()


class _Maker:
    def __init__(self, far: float) -> None:
        rng = np.random.default_rng(5)
        self._nodes: list[NodeProto] = []
        self._weights: dict[str, NDArray[np.float32]] = {}
        self.bias_K = np.zeros(N_CLASSES, np.float32)
        scale = np.ones((1, WIDTH, 1, 1), np.float32)
        scale[0, 0] = far
        self._weights["scale"] = scale
        last = self._relu("stem", self._conv("stem.conv", "pixels", rng, n_in=3))
        for block in (f"blocks.{i}" for i in range(3)):
            inner = self._relu(f"{block}.act", self._conv(f"{block}.conv1", last, rng))
            conv2 = f"{block}.conv2"
            if conv2 == FAR_LAYER:
                inner = self._node("Mul", f"{block}.far", [inner, "scale"])
            added = self._node("Add", block, [self._conv(conv2, inner, rng), last])
            last = self._relu(block, added)
        self._weights[f"{FAR_LAYER}.weight"][:, 0] /= far
        pooled = self._node("ReduceMean", "pool", [last, self._constant("axes", np.array([2, 3]))], keepdims=0)
        self._constant("head.weight", rng.normal(0, 1, (N_CLASSES, WIDTH)))
        self._nodes.append(
            helper.make_node("Gemm", [pooled, "head.weight", "head.bias"], ["logits"], "head/Gemm", transB=1)
        )

    def model(self) -> onnx.ModelProto:
        constants = {**self._weights, "head.bias": self.bias_K}
        graph = helper.make_graph(
            self._nodes,
            "tiny",
            [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 3, PX, PX])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", N_CLASSES])],
            [numpy_helper.from_array(values, name) for name, values in constants.items()],
        )
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[opset])

    def _constant(self, name: str, values: NDArray[np.generic]) -> str:
        self._weights[name] = values.astype(np.int64 if values.dtype.kind == "i" else np.float32)
        return name

    def _conv(self, path: str, source: str, rng: np.random.Generator, n_in: int = WIDTH) -> str:
        weight = self._constant(f"{path}.weight", rng.normal(0, (9 * n_in) ** -0.5, (WIDTH, n_in, 3, 3)))
        bias = self._constant(f"{path}.bias", rng.normal(0, 0.1, WIDTH))
        return self._node("Conv", path, [source, weight, bias], pads=[1, 1, 1, 1], kernel_shape=[3, 3])

    def _relu(self, path: str, source: str) -> str:
        return self._node("Relu", path, [source])

    def _node(self, op_type: str, path: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{path}/{op_type}"
        self._nodes.append(helper.make_node(op_type, inputs, [f"{name}:0"], name, **attributes))
        return f"{name}:0"
