"""``python -m engine.export.backends.tensorrt_rtx.compile``: one graph to one engine, in a process of its own.

So a crash of the compiler, which is native code, is the end of this process alone; a build is cancelled by ending it;
and its memory is given back. Is told the number of the process that it works for, reads an ``Order`` from standard
input and prints a ``Result``. Loads no torch, needs no GPU.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import tensorrt_rtx as trt
from pydantic import Field, TypeAdapter

from engine.export.backends.files import write_whole
from wire.exports import InputProfile
from wire.specs.strict import Strict

INPUT: Final = "images"
_PR_SET_PDEATHSIG: Final = 1
"""Of prctl(2)."""
_N_MESSAGES: Final = 5
_ACTIVATIONS: Final = re.compile(r"Total Activation Memory: (\d+) bytes")
_SOURCE: Final = re.compile(r"^\[[^\]]*::[^\]]*\]\s*|\s+In \w+ at /[^\s)]*|\[\w+\.\w+:\d+: \w+\]\s*")
"""Where in the compiler's code a message comes from."""


class Order(Strict):
    model: Path
    engine: Path
    """To be written."""
    compute_capability: str
    profile: InputProfile


class Built(Strict):
    outcome: Literal["built"] = "built"
    bytes: int
    seconds: float
    memory_bytes: int | None
    """Of the GPU, for the largest batch of the largest images, besides the weights; None where it was not said."""


class Refused(Strict):
    outcome: Literal["refused"] = "refused"
    operator: str
    node: str
    reason: str
    """What of it is refused; empty where it is not known at all."""


class NotBuilt(Strict):
    outcome: Literal["not_built"] = "not_built"
    messages: tuple[str, ...]


class NotWritten(Strict):
    outcome: Literal["not_written"] = "not_written"
    errno: int


Result: TypeAlias = Annotated[Built | Refused | NotBuilt | NotWritten, Field(discriminator="outcome")]
RESULT: Final[TypeAdapter[Result]] = TypeAdapter(Result)


class Messages(trt.ILogger):  # type: ignore[misc]
    """Keeps the last complaints; prints nothing."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.complaints: deque[str] = deque(maxlen=_N_MESSAGES)
        self.memory_bytes: int | None = None

    def log(self, severity: Any, msg: str) -> None:
        if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
            self.complaints.append(_SOURCE.sub("", msg.strip()).partition("\n")[0][:300])
        elif found := _ACTIVATIONS.search(msg):
            self.memory_bytes = int(found[1])


def compile_engine(order: Order) -> Result:
    """Parse, compile, write. Precision is what the graph says: the network is strongly typed, and TF32 is off."""
    begun = time.perf_counter()
    messages = Messages()
    builder = trt.Builder(messages)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, messages)
    if not parser.parse_from_file(str(order.model)):
        return _refusal(parser, messages)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.add_optimization_profile(_profile(builder, order.profile))
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(trt.ComputeCapability, f"SM{order.compute_capability.replace('.', '')}"), 0)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        return NotBuilt(messages=tuple(messages.complaints))
    try:
        write_whole(order.engine, memoryview(engine))
    except OSError as error:
        return NotWritten(errno=error.errno or 0)
    return Built(bytes=engine.nbytes, seconds=round(time.perf_counter() - begun, 3), memory_bytes=messages.memory_bytes)


def _profile(builder: Any, wanted: InputProfile) -> Any:
    profile = builder.create_optimization_profile()
    shapes = (
        (batch, px, px, 3)
        for batch, px in (
            (wanted.least_batch, wanted.least_px),
            (wanted.typical_batch, wanted.typical_px),
            (wanted.most_batch, wanted.most_px),
        )
    )
    profile.set_shape(INPUT, *shapes)
    return profile


def _refusal(parser: Any, messages: Messages) -> Result:
    if not parser.num_errors:
        return NotBuilt(messages=tuple(messages.complaints))
    error = parser.get_error(0)
    if not error.node_operator():
        return NotBuilt(messages=(error.desc(),))
    # Of an operator that it does not know the parser quotes the condition in its own code that failed.
    reason = "" if error.code() in (trt.ErrorCode.INVALID_NODE, trt.ErrorCode.UNSUPPORTED_NODE) else error.desc()
    return Refused(operator=error.node_operator(), node=error.node_name(), reason=reason)


def end_with_parent(parent: int) -> None:
    """Be killed when the engine is: a compiler left alone would write into the folder of the next attempt."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before
        sys.exit(1)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    sys.stdout.write(compile_engine(Order.model_validate_json(sys.stdin.read())).model_dump_json())
