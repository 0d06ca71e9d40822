"""TensorRT for RTX: engines for NVIDIA's GeForce and RTX GPUs, built without a GPU at hand."""

from __future__ import annotations

from typing import Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import Field, field_validator, model_validator

from wire.cards import BackendCard
from wire.specs.strict import Strict, ui

ComputeCapability: TypeAlias = Literal["7.5", "8.0", "8.6", "8.9", "12.0", "12.1"]

_LABELS: Final[dict[str, str]] = {
    "7.5": "7.5 (GTX 16, RTX 20, T4)",
    "8.0": "8.0 (A100, A30)",
    "8.6": "8.6 (RTX 30, A10, A40)",
    "8.9": "8.9 (RTX 40, L4, L40)",
    "12.0": "12.0 (RTX 50, RTX PRO Blackwell)",
    "12.1": "12.1 (GB10)",
}
"""With GPUs that have them."""

COMPUTE_CAPABILITIES: Final[tuple[ComputeCapability, ...]] = get_args(ComputeCapability)
"""Those that the builder knows."""


def _range_ui(unit: str) -> dict[str, Any]:
    return ui("TensorRT", unit=unit, advanced=True)


class TensorRtRtxOptions(Strict):
    compute_capabilities: tuple[ComputeCapability, ...] = Field(
        ("8.6", "8.9", "12.0"),
        min_length=1,
        title="Compute capabilities",
        description="An engine is built for each; it runs on GPUs of that one alone.",
        json_schema_extra={
            **ui("TensorRT", labels=_LABELS),
            "widget": "checks",
        },
    )
    least_batch: int = Field(1, ge=1, le=1024, title="Smallest batch", json_schema_extra=_range_ui("images"))
    typical_batch: int = Field(
        8,
        ge=1,
        le=1024,
        title="Typical batch",
        description="What the engine is tuned for.",
        json_schema_extra=_range_ui("images"),
    )
    most_batch: int = Field(32, ge=1, le=1024, title="Largest batch", json_schema_extra=_range_ui("images"))
    least_px: int = Field(
        1,
        ge=1,
        le=8192,
        title="Smallest image side",
        description="Of the images given to the model, which brings them to its own size.",
        json_schema_extra=_range_ui("px"),
    )
    typical_px: int = Field(512, ge=1, le=8192, title="Typical image side", json_schema_extra=_range_ui("px"))
    most_px: int = Field(
        2048,
        ge=1,
        le=8192,
        title="Largest image side",
        description="The GPU memory that an engine takes grows with its square, times the largest batch.",
        json_schema_extra=_range_ui("px"),
    )

    @field_validator("compute_capabilities")
    @classmethod
    def _each_once(cls, chosen: tuple[ComputeCapability, ...]) -> tuple[ComputeCapability, ...]:
        return tuple(name for name in COMPUTE_CAPABILITIES if name in chosen)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for what, least, typical, most in (
            ("batch", self.least_batch, self.typical_batch, self.most_batch),
            ("image side", self.least_px, self.typical_px, self.most_px),
        ):
            if not least <= typical <= most:
                order = f"{least}, {typical}, {most}"
                raise ValueError(f"the {what} must not fall from smallest to typical to largest: {order}")
        return self


CARD = BackendCard(
    name="tensorrt_rtx",
    label="TensorRT for RTX",
    summary="Engines for NVIDIA's GeForce and RTX GPUs. Built here without one; run where one is.",
    implementation="engine.export.backends.tensorrt_rtx.backend:TensorRtRtxBackend",
    precisions=("fp32", "fp16", "int8"),
    requires=("onnx", "onnxscript", "tensorrt_rtx"),
    needs_cuda=True,
    licence="NVIDIA TensorRT for RTX licence",
    options=TensorRtRtxOptions,
)
