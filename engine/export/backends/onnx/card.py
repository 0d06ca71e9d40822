"""ONNX: one file that runs on processors, GPUs, phones and in browsers."""

from __future__ import annotations

from wire.cards import BackendCard

CARD = BackendCard(
    name="onnx",
    label="ONNX",
    summary="Runs nearly everywhere: on processors and GPUs by ONNX Runtime, and wherever else ONNX is read.",
    implementation="engine.export.backends.onnx.backend:OnnxBackend",
    precisions=("fp32", "fp16", "int8"),
    requires=("onnx", "onnxscript", "onnxruntime"),
    licence="MIT (ONNX Runtime)",
)
