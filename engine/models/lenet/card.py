"""LeCun et al.: Gradient-based learning applied to document recognition, Proc. IEEE 86 (1998), section II.B."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from wire.cards import ModelCard


class LeNetOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    activation: Literal["relu", "tanh"] = Field(
        "relu",
        title="Activation",
        description="The paper's is tanh; ReLU learns faster.",
        json_schema_extra={"group": "Model", "labels": {"relu": "ReLU", "tanh": "tanh (as in the paper)"}},
    )


CARD = ModelCard(
    name="lenet5",
    label="LeNet-5",
    summary="Three small convolutions; made for digits, trains in seconds.",
    implementation="engine.models.lenet.model:LENET5",
    family="LeNet",
    year=1998,
    min_px=32,
    default_px=32,
    n_parameters=146_156,
    n_flops=1_469_760,
    code_licence="Fovea's own code",
    small_images=True,
    options=LeNetOptions,
)
