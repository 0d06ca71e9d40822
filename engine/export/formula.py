"""Arithmetic that writes itself down as ONNX nodes, so that a graph made by hand reads as formulas.

    steps = Steps("preprocess")
    x = steps.given("x", TensorProto.INT32)
    y = 2 * (x + 1) // 3        # four nodes and three constants

Numbers take the type of what they are combined with. ``//`` is for integers that are not negative: ONNX rounds to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

Numbers: TypeAlias = "float | Sequence[Numbers]"
_NUMPY: Final[dict[int, type[np.generic]]] = {
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.FLOAT: np.float32,
    TensorProto.BOOL: np.bool_,
}


class Steps:
    """The nodes and constants of a graph in the making; names begin with ``prefix``."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._prefix = prefix
        self._n_nodes = 0
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def given(self, name: str, kind: int) -> Value:
        """An input of the graph."""
        return Value(self, name, kind)

    def constant(self, numbers: Numbers, kind: int) -> Value:
        array: NDArray[np.generic] = np.asarray(numbers, _NUMPY[kind])
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = f"{self._prefix}/constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(array, self._names[key]))
        return Value(self, self._names[key], kind)

    def apply(self, operator: str, *operands: Value, kind: int | None = None, **attributes: Any) -> Value:
        """One node more; its value is of ``kind``, by default that of the first operand."""
        return self.apply_many(operator, *operands, n=1, kind=kind, **attributes)[0]

    def apply_many(
        self, operator: str, *operands: Value, n: int, kind: int | None = None, **attributes: Any
    ) -> list[Value]:
        """One node more, of ``n`` outputs."""
        name = f"{self._prefix}/{operator}_{self._n_nodes}"
        self._n_nodes += 1
        outputs = [name if n == 1 else f"{name}_{i}" for i in range(n)]
        self.nodes.append(
            helper.make_node(operator, [operand.name for operand in operands], outputs, name, **attributes)
        )
        return [Value(self, output, operands[0].kind if kind is None else kind) for output in outputs]

    def branch(self, condition: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """What ``yes`` makes where the condition, one boolean, holds; else what ``no`` makes. Only one is computed."""
        outputs = []
        graphs = []
        for make in (yes, no):
            outside, self.nodes = self.nodes, []
            outputs.append(make())
            result = helper.make_empty_tensor_value_info(outputs[-1].name)
            graphs.append(helper.make_graph(self.nodes, f"{self._prefix}/branch", [], [result]))
            self.nodes = outside
        kind = outputs[0].kind
        return self.apply("If", condition, kind=kind, then_branch=graphs[0], else_branch=graphs[1])


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph. Operators broadcast as numpy's do."""

    steps: Steps
    name: str
    kind: int
    """As ``TensorProto`` numbers the types of elements."""

    def __add__(self, other: Value | float) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("Sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._number(other)._with("Sub", self)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("Mul", other)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Value | int) -> Value:
        return self._with("Div", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("Div", other)

    def __matmul__(self, other: Value) -> Value:
        return self._with("MatMul", other)

    def __ge__(self, other: Value | float) -> Value:
        return self._with("GreaterOrEqual", other, TensorProto.BOOL)

    def __gt__(self, other: Value | float) -> Value:
        return self._with("Greater", other, TensorProto.BOOL)

    def __lt__(self, other: Value | float) -> Value:
        return self._with("Less", other, TensorProto.BOOL)

    def __and__(self, other: Value) -> Value:
        return self._with("And", other)

    def equals(self, other: Value | float) -> Value:
        return self._with("Equal", other, TensorProto.BOOL)

    def at_least(self, other: Value | float) -> Value:
        """The larger of both, element by element."""
        return self._with("Max", other)

    def at_most(self, other: Value | float) -> Value:
        """The smaller of both, element by element."""
        return self._with("Min", other)

    def __abs__(self) -> Value:
        return self.steps.apply("Abs", self)

    def to(self, kind: int) -> Value:
        return self.steps.apply("Cast", self, kind=kind, to=kind)

    def choose(self, yes: Value, no: Value | float) -> Value:
        """Where this holds the one, elsewhere the other."""
        other = no if isinstance(no, Value) else yes._number(no)
        return self.steps.apply("Where", self, yes, other, kind=yes.kind)

    def summed(self, axis: int) -> Value:
        """Over one axis, which stays with length 1."""
        return self.steps.apply("ReduceSum", self, self.steps.constant([axis], TensorProto.INT64), keepdims=1)

    def _with(self, operator: str, other: Value | float, kind: int | None = None) -> Value:
        operand = other if isinstance(other, Value) else self._number(other)
        return self.steps.apply(operator, self, operand, kind=kind)

    def _number(self, number: float) -> Value:
        return self.steps.constant(number, self.kind)
