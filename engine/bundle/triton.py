"""A model repository for NVIDIA's Triton Inference Server, with the bundle's default model.

All ONNX models of a bundle take and give the same, so any of them may lie in its place; engines of TensorRT for RTX may
not, for Triton's own backend loads those of the other TensorRT alone.
"""

from __future__ import annotations

from typing import Final

MOST_AT_ONCE: Final = 32
"""The largest batch that was measured."""
LABELS: Final = "labels.txt"

# Sides are -1: any size. Triton puts images of one size together.
_CONFIG: Final = """\
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: {most}
input [
  {{
    name: "images"
    data_type: TYPE_UINT8
    dims: [ -1, -1, 3 ]
  }}
]
output [
  {{
    name: "probabilities"
    data_type: TYPE_FP32
    dims: [ {n_classes} ]
    label_filename: "{labels}"
  }}
]
dynamic_batching {{ }}
"""


def config_pbtxt(name: str, n_classes: int) -> str:
    """``name``: of the model's folder, of letters, digits and hyphens."""
    return _CONFIG.format(name=name, n_classes=n_classes, most=MOST_AT_ONCE, labels=LABELS)
