"""Rebuilds this bundle's engines from their ONNX graphs: ``python build_engine.py``, on the machine that will run them.

Needs tensorrt_rtx (``pip install tensorrt-rtx-cu13``). Without ``--capability`` an engine is built for the GPU that is
here; with it, as in ``--capability 8.9 12.0``, for those, and no GPU is needed. They are written to ``rebuilt/``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import tensorrt_rtx

HERE = Path(__file__).resolve().parent
CURRENT = "current"


class NotBuilt(Exception):
    """Says why."""


def capability_of(text: str) -> Any:
    """``8.9`` -> TensorRT's own name for it."""
    known = tensorrt_rtx.ComputeCapability
    name = "CURRENT" if text == CURRENT else f"SM{text.replace('.', '')}"
    if name not in known.__members__:
        names = ", ".join(sorted(f"{each[2:-1]}.{each[-1]}" for each in known.__members__ if each.startswith("SM")))
        raise NotBuilt(f"TensorRT for RTX {tensorrt_rtx.__version__} knows no {text}; it knows {names}")
    return known.__members__[name]


def build(graph: bytes, profile: dict[str, int], capability: str) -> bytes:
    """The engine of an ONNX graph.

    Args:
        graph: as it lies in the bundle; its precision is in it.
        profile: batches and sides of images, from ``bundle.json``.
        capability: ``8.9``, or ``CURRENT``.

    Raises:
        NotBuilt: TensorRT says no; the message holds what it said.
    """
    logger = tensorrt_rtx.Logger(tensorrt_rtx.Logger.ERROR)
    builder = tensorrt_rtx.Builder(logger)
    network = builder.create_network(1 << int(tensorrt_rtx.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = tensorrt_rtx.OnnxParser(network, logger)
    if not parser.parse(graph):
        raise NotBuilt(str(parser.get_error(0)) if parser.num_errors else "the graph was not understood")
    config = builder.create_builder_config()
    config.clear_flag(tensorrt_rtx.BuilderFlag.TF32)  # as in the engines that were verified
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability_of(capability), 0)
    shapes = builder.create_optimization_profile()
    sizes = [(profile[f"{which}_batch"], profile[f"{which}_px"]) for which in ("least", "typical", "most")]
    shapes.set_shape("images", *[(batch, px, px, 3) for batch, px in sizes])
    config.add_optimization_profile(shapes)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise NotBuilt("TensorRT gave no engine; its messages stand above")
    return bytes(engine)


def main() -> int:
    index = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    models = {model["name"]: model for model in index["models"] if model["profile"]}
    parser = argparse.ArgumentParser(description="Rebuild the engines of this bundle.")
    parser.add_argument("--model", choices=sorted(models), action="append", help="all of them, where none is named")
    parser.add_argument("--capability", nargs="+", default=[CURRENT], metavar="8.9")
    asked = parser.parse_args()
    n_failed = 0
    for name in asked.model or sorted(models):
        model = models[name]
        graph = next(HERE / file["path"] for file in model["files"] if file["role"] == "source").read_bytes()
        for capability in asked.capability:
            path = HERE / "rebuilt" / name / engine_name(capability)
            try:
                engine = build(graph, model["profile"], capability)
            except NotBuilt as reason:
                n_failed += 1
                print(f"{name}, {capability}: {reason}", file=sys.stderr)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(engine)
            print(f"{path.relative_to(HERE)}: {len(engine):,} bytes")
    return 1 if n_failed else 0


def engine_name(capability: str) -> str:
    return "current.engine" if capability == CURRENT else f"sm{capability.replace('.', '')}.engine"


if __name__ == "__main__":
    sys.exit(main())
