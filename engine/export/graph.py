"""The whole model as one ONNX graph: pictures of any size in, probabilities out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import helper

from engine.export.network import IR_VERSION
from engine.export.preprocess import preprocess_model
from engine.predict.session import Session
from engine.store.disk import fsync_path


def whole_model(network: onnx.ModelProto, session: Session, about: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Pre-processing, network and soft-max in one.

    Args:
        network: of ``network_model``, in any precision; ``pixels`` in, ``logits`` out, both float32.
        session: what it was made from; says how pictures become pixels and what the classes are called.
        about: more facts for the metadata, such as which checkpoint it was.

    Shapes:
        input ``images`` uint8 (batch, height, width, 3), RGB; output ``probabilities`` float32 (batch, K).
    """
    before = preprocess_model(session.image_px, session.resize, session.colour, session.mean, session.std).graph
    within = network.graph
    probabilities = helper.make_tensor_value_info(
        "probabilities", onnx.TensorProto.FLOAT, ["batch", len(session.classes)]
    )
    graph = helper.make_graph(
        [
            *before.node,
            *within.node,
            helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
        ],
        "fovea",
        list(before.input),
        [probabilities],
        [*before.initializer, *within.initializer],
        # Knowing the shape of the pixels, a runtime needs not follow the arithmetic that made them.
        value_info=[*before.output, *within.output, *within.value_info],
    )
    model = helper.make_model(
        graph, producer_name="Fovea", ir_version=IR_VERSION, opset_imports=list(network.opset_import)
    )
    helper.set_model_props(model, {**_facts(session), **(about or {})})
    onnx.checker.check_model(model)
    return model


def model_bytes(model: onnx.ModelProto) -> bytes:
    """The file's content; the same model gives the same bytes."""
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def save_model(model: onnx.ModelProto, path: Path) -> int:
    """Write beside, sync, rename: after a power cut the file is whole or absent. Returns its bytes."""
    content = model_bytes(model)
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    fsync_path(path.parent)
    return len(content)


def _facts(session: Session) -> dict[str, str]:
    return {
        "task": session.task,
        "model": session.model,
        "classes": json.dumps(session.classes, ensure_ascii=False),
        "image_px": str(session.image_px),
        "resize": session.resize,
        "colour": session.colour,
        "mean": json.dumps(session.mean),
        "std": json.dumps(session.std),
        "step": str(session.step),
    }
